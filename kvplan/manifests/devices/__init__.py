"""What manifests say of accelerators."""
