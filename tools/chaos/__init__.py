"""Chaos as a command: a stack under load whose processes are killed, frozen and told to end, and the proof after it."""
