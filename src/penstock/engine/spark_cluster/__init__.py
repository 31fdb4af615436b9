"""Spark on a given cluster: its master, its properties, what executors are sent, and what may be wrong with them."""
