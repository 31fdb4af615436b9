"""The writer of the history as a process: one that comes and goes under `penstock dev`, one that stays on a cluster."""
