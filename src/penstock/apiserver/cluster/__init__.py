"""What makes the generic server a cluster: the Node, what exists from the start, the rules of the project's kinds."""
