"""Sources that run: what fires, what watches, and how their events reach the sink."""
