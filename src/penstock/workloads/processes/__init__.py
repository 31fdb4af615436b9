"""Containers as processes of this machine: their command, files, checks, and the process itself."""
