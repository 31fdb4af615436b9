"""The processes that write the history: batches under `penstock dev`, a permanent role on a cluster."""
