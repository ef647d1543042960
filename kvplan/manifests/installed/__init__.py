"""Which release of vLLM a command finds: what images hold, and what scripts install."""
