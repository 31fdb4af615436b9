"""The node of the embedded control plane: Pods of known images run here as local actors, without a container engine."""
