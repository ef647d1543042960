"""What is done with the numbers: limits, differences, the lock, and every output format."""
