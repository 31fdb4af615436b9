"""TLS of clients: which authorities they trust, and the certificate they present."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

import structlog

from penstock.web.tls_context import load_pair

if TYPE_CHECKING:
    from penstock.web.certificates import KeyPair


log = structlog.get_logger()


class ClientCertificate:
    """A certificate with its key. Compared by identity: one that is read again gets its own connections."""

    __slots__ = ("pair",)

    def __init__(self, pair: KeyPair) -> None:
        """Raises ValueError if OpenSSL rejects it, so that this does not happen with every delivery."""
        self.pair = pair
        _show(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)


@lru_cache(maxsize=64)
def tls_to(ca_certs: str | None, certificate: ClientCertificate | None = None, trusted: str = "") -> ssl.SSLContext:
    """TLS that trusts the system's authorities, the trust bundles and `ca_certs`, and shows the client certificate.

    Raises ValueError if `ca_certs` or the client certificate cannot be used.
    """
    context = ssl.create_default_context()
    _trust_bundles(context, trusted)
    try:
        if ca_certs:
            context.load_verify_locations(cadata=ca_certs)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"the certificates of the destination cannot be used: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    if certificate is not None:
        _show(context, certificate.pair)
    return context


def _trust_bundles(context: ssl.SSLContext, trusted: str) -> None:
    """Invalid bundles must not stop deliveries. Ignoring them is safe: fewer servers are trusted, never more."""
    try:
        if trusted:
            context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        log.error("the trust bundles cannot be used; verifying destinations without them", error=str(error))


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    try:
        load_pair(context, pair.certificate, pair.key)
    except ValueError as error:
        raise ValueError(f"the client certificate cannot be used: {error}") from error
