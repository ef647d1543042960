"""The checks: what is measured and judged."""
