"""Processes and containers: who starts them, with which environment, and what they serve."""
