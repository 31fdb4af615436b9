"""Whom clients of penstock believe: what the system trusts, and certificates that come with an address."""

from __future__ import annotations

import ssl
from functools import lru_cache


@lru_cache(maxsize=64)
def trust(ca_certs: str | None) -> ssl.SSLContext:
    """TLS that trusts what the system trusts, and these certificates. Raises ValueError where they are none."""
    context = ssl.create_default_context()
    try:
        if ca_certs:
            context.load_verify_locations(cadata=ca_certs)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the certificates of the destination cannot be used: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context
