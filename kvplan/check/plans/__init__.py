"""From a question of a budget to numbers."""
