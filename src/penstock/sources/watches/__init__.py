"""ApiServerSources that run: what they watch, and the events they make of it."""
