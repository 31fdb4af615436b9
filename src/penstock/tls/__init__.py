"""What servers of penstock show to their clients: whose certificate, for which names, and how it stays valid."""
