"""Objects on disk."""
