"""Generations of the query: how one follows another without an event lost, and where each starts."""
