"""Builds the documents from plans, one module per command. Nothing is computed here."""
