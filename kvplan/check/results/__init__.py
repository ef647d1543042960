"""What becomes of the numbers: limits, differences, the lock, and every form of output."""
