"""Each document as blocks: which of its numbers a person sees, in which order, in which words."""
