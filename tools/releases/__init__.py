"""Facts about one release of vLLM, read from its own files."""
