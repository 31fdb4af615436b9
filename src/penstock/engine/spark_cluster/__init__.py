"""Spark on an existing cluster: its master, its properties, the packages for executors, and checks of executors."""
