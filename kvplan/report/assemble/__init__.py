"""From plans to documents: nothing is worked out here that a plan doesn't already hold. One module a command."""
