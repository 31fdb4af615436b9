"""The console, from a terminal."""
