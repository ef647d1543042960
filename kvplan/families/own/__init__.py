"""Model types that say the same things their own way. Each is one function from fields to layers.

A type is here only where its fields can't be told from another type's with a different meaning.
"""
