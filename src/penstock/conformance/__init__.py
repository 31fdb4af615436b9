"""The specifications, executed: the event delivery tests against any installation, and the table of all assertions."""
