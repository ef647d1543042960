"""Layers of a model as torch modules."""
