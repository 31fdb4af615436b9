"""The node of the embedded control plane: Pods of known images run here as processes, without a container engine."""
