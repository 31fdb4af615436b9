"""HTTP and TLS: servers, clients for addresses that users name, certificates and their renewal."""
