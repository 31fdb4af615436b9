"""The map: what leads where, laid out and drawn."""
