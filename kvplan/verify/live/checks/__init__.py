"""What is measured and judged."""
