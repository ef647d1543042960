"""vLLM: how its releases place caches in blocks, what they leave for them, and when they don't start.

policy.py     the engine that plans are made with; settings.py the flags it is given; inverse.py questions asked backwards
tables/       what differs from release to release and from class to class
blocks/       what a block of each layer holds, and how many there are
layout/       what is made of a checkpoint's tensors
memory/       what weights, start-up and adapters leave for them
starts/       whether it starts, with which length, and what it says where it doesn't
emit.py       the command to paste
"""
