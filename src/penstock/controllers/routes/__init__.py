"""Routes between control plane and data plane: claimed, published, acknowledged."""
