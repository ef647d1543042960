"""From a budget's question to numbers."""
