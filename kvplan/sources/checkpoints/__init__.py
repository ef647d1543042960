"""Checkpoints by their own headers: every tensor, and its place in a model."""
