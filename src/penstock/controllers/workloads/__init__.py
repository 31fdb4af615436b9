"""Jobs, CronJobs, Deployments and ReplicaSets of the embedded control plane: what they ask for becomes Pods.

On a real cluster Kubernetes does this, and none of it runs. Each module decides purely; `reconcilers` acts.
"""
