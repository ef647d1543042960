"""What one release of vLLM has, read from its own files."""
