"""Sinks that the control plane answers itself, because what they do with an event is to create objects."""
