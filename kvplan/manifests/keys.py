"""Keys and values that only serve commands give a plan: no budget writes them."""

from __future__ import annotations

STRETCHED = "allow_long_max_model_len"
"""vLLM's leave to serve more tokens than the model's config says; it takes it from the environment."""

GUESSED = "guessed"
"""That tokens are drafted by no layers that are planned: from the text itself, or by what isn't counted."""

ITSELF = "itself"
"""That the model is to draft with prediction layers of its own."""

METHOD = "draft_method"
"""How the model that is named drafts: by itself (`draft_model`), or as a head on the other's positions (`eagle`, `eagle3`)."""

QUANTIZATION, DTYPE = "quantization", "dtype"
"""What a command says of the checkpoint, to be held against it."""

CONNECTORS, EVENTS = "kv_connector", "kv_events"
"""KV connectors by their names, and whether KV events are published: either may turn the hybrid KV cache manager off."""

DEVICES = "devices"
"""What is said of the accelerator beside its name."""

EVERY_RANK = -1
"""An expert parallel size that means all tensor and data ranks, as vLLM's switch does."""

ENDLESS = -1
"""A context that vLLM is asked to choose itself: the longest that fits."""
