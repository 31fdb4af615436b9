"""The node of the embedded control plane: runs Pods as processes, without a container engine."""
