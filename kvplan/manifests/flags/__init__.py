"""vLLM's command line: its parser, what each flag means to a plan, and which release has it."""
