"""What makes the generic server a cluster: the Node, bootstrap objects, aggregated ClusterRoles, admission plugins."""
