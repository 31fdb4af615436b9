"""What the control plane and the data plane agree on: topics, headers, the snapshot of routes, reports."""
