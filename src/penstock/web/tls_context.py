"""A server's TLS context whose certificate can be replaced while connections are made with it.

A context in use never gets another certificate: loading one takes two steps, and OpenSSL drops the old key in the
first, so a handshake that begins between them fails. Instead, each certificate has its own immutable context;
handshakes begin with `context` and switch to the newest one.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path


class RenewedContext:
    """The context that a server gets once, for all certificates that it shows."""

    def __init__(self) -> None:
        self.context = self.current = server_context()
        """`current` has the newest certificate, for servers that select a context themselves."""
        self.context.sni_callback = self._choose

    def show(self, certificate: bytes, key: bytes) -> None:
        """Shows the certificate to new connections. Raises ValueError if its key does not fit."""
        context = server_context()
        load_pair(context, certificate, key)
        self.current = context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _host: str | None, _used: ssl.SSLContext) -> None:
        """Called in every handshake, even if the client sends no host name."""
        connection.context = self.current


def server_context() -> ssl.SSLContext:
    """A context for HTTP/1.1, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Gives a certificate and its key, both PEM, to a context that is not in use yet. Raises ValueError if the key
    does not fit.

    Python's ssl module reads files only, so they are written to a temporary folder that only this account can enter.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "server.crt"), Path(folder, "server.key")
        for path, content in zip(paths, (certificate, key), strict=True):
            path.write_bytes(content)
        try:
            context.load_cert_chain(*paths, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(f"the certificate and its key cannot be used together: {error}") from error
