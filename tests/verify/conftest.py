"""One thread for torch: small tensors gain nothing from more, and lose much on a busy machine."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
