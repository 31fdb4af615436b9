"""Containers as processes of this machine: command, environment, files, probes, and the process."""
