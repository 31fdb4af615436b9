"""ApiServerSource: events of changes in the Kubernetes API."""
