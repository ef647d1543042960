"""What teams already have: one file for each format, all of them delivering containers and commands."""
