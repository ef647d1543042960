"""The budget file: its fields, its layers of defaults and templates, and what it asks."""
