"""One module per kind: from its spec to its status and its routes."""
