"""The part that runs: torch modules, tensors, clocks. Imported only when a verification starts."""
