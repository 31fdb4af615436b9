"""Pods: their containers are started, probed, restarted and stopped, and their status is written."""
