"""What vLLM makes of a checkpoint's tensors: padding, copies, formats of its own, tables beside them."""
