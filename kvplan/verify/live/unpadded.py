"""Answers for code that asks for the value of a tensor, where tensors have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Unpadded(TorchFunctionMode):
    """Answers as for a prompt without padding: a mask that is asked whether it is all ones is."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What `func` returns; for the truth of a tensor of the meta device, that it is true, and that it holds no such token."""
        if func is torch.Tensor.__bool__ and args[0].is_meta:
            return True
        if func is torch.Tensor.__contains__ and args[0].is_meta:
            return False
        return func(*args, **(kwargs or {}))
