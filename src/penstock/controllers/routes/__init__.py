"""The routes as the data plane has them: claimed, published, acknowledged."""
