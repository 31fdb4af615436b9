"""ContainerSource: a program of the user that sends events."""
