"""The part that runs: torch modules, live tensors, clocks. Imported only when a verification starts."""
