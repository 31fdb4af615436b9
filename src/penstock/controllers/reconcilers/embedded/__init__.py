"""Controllers of what only the embedded control plane runs; on a real cluster others do this."""
