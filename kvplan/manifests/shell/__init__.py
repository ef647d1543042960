"""Shell scripts, read without running anything: words, expansions, variables, and the ways through them."""
