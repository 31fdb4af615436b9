"""Whether routing goes on: the router's thread, its partitions, Spark's tasks and the slots they need."""
