"""Who may send, and what is kept secret: `penstock keys`, `penstock secrets`."""
