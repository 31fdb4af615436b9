"""The Kubernetes API: its kinds, the paths of its objects, and the clients that everything else asks it with."""
