"""EventTypes: the controller, and what makes them of events that pass."""
