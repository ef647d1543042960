"""One file a command: what it takes, one call of kvplan.api, what it answers."""
