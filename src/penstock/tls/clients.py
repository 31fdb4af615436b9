"""TLS of clients: whom they believe to be the server, and what they show to one that asks who they are."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.certificates import KeyPair


class ClientCertificate:
    """A certificate with its key, as it was read. One that is read anew is another, with connections of its own."""

    __slots__ = ("pair",)

    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair


@lru_cache(maxsize=64)
def tls_to(ca_certs: str | None, certificate: ClientCertificate | None = None, trusted: str = "") -> ssl.SSLContext:
    """TLS that trusts what the system trusts, what the trust bundles hold, and these certificates, and shows the given
    one. Raises ValueError where they are none, or cannot be used.
    """
    context = ssl.create_default_context()
    if trusted:
        context.load_verify_locations(cadata=trusted)
    try:
        if ca_certs:
            context.load_verify_locations(cadata=ca_certs)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the certificates of the destination cannot be used: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    if certificate is not None:
        _show(context, certificate.pair)
    return context


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    from penstock.tls.server import NoCertificate, show

    try:
        show(context, pair)
    except NoCertificate as error:
        raise ValueError(f"the client certificate cannot be used: {error}") from error
