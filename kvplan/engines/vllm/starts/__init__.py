"""Whether vLLM starts, with which length, and what it says where it doesn't."""
