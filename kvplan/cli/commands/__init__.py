"""One file per command: its options, one call of kvplan.api, and its answer."""
