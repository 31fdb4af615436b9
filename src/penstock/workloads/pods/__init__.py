"""The life of Pods: taken, started, probed, started again, stopped, and what kubectl shows of it."""
