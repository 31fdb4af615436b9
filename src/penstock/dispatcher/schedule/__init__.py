"""Which delivery is next, and who runs it."""
