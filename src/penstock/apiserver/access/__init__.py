"""Who asks, what they may do, and the certificates and files that let them in."""
