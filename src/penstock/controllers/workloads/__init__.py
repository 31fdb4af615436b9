"""Jobs, CronJobs, Deployments, ReplicaSets and EndpointSlices of the embedded control plane.

In an existing cluster Kubernetes has controllers for them, and these do not run. Each module decides without I/O;
`reconcilers` executes the decisions.
"""
