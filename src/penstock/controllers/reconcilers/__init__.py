"""The reconcilers, one module per kind, and what they share."""
