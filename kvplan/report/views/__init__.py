"""Each document as blocks: which of its numbers a person sees, in which order and in which words."""
