"""What a block of each layer holds, and how many there are."""
