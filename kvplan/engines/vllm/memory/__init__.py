"""What weights, start-up and adapters leave for the cache."""
