"""Checkpoints by their own headers: every tensor, and where in a model it belongs."""
