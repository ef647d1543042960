"""Keys and values of a layer that manifests and their callers share, besides those that only a budget file has."""

from __future__ import annotations

from typing import Literal

# Flags, of a budget as well as of a command

STRETCHED = "allow_long_max_model_len"
"""vLLM's leave to serve more tokens than the model's config says; it takes it from the environment."""

RUNNER, AITER = "use_v2_model_runner", "rocm_use_aiter"
"""vLLM's model runner, and AITER's kernels; it takes both from the environment too."""

QUANTIZATION, DTYPE = "quantization", "dtype"
"""What is said of the checkpoint, to be held against it."""

CONNECTORS, EVENTS = "kv_connector", "kv_events"
"""KV connectors by their names, and whether KV events are published: either may turn the hybrid KV cache manager off."""

# Keys of commands alone: a budget has none of them, and they stand beside its flags so that it can't

DEVICES = "devices"
"""What is said of the accelerator beside its name."""

DRAFTING = "drafting"
"""How tokens are drafted, a `Drafting`."""

OVERRIDDEN = "overridden"
"""That parts of the model's config are replaced, which may then say something else."""

Drafting = Literal["guessed", "itself", "draft_model", "eagle", "eagle3"]
"""How tokens are drafted: by no layers that are planned (from the text, or by what isn't counted), by prediction layers of the
model's own, or by the model that is named - alone, or as a head on the other's positions."""

# Values

EVERY_RANK = -1
"""An expert parallel size that means all tensor and data ranks, as vLLM's switch does."""

ENDLESS = -1
"""A context that vLLM is asked to choose itself: the longest that fits."""
