"""Each document as blocks: which numbers a person sees, in which order and words."""
