"""The objects of the API on disk, in SQLite."""
