"""From plans to documents, one module per command. Nothing is computed here that a plan doesn't already hold."""
