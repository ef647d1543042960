"""What manifests say about accelerators."""
