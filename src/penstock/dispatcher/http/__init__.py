"""HTTP/1.1 to subscribers: addresses, names, connections."""
