"""TLS for small servers that answer each client in a thread of its own: metrics and probes."""

from __future__ import annotations

import socketserver
import ssl
import threading
import time
from typing import Any

import structlog

from penstock.tls.server import LOOK_SECONDS, NoCertificate, ServerTls

CLIENT_SECONDS = 10.0
"""Time for a client to agree upon TLS."""

log = structlog.get_logger()


class FreshCertificate:
    """The context of a server, looked after whenever a client comes."""

    def __init__(self, tls: ServerTls) -> None:
        """Raises NoCertificate where there is none to begin with."""
        tls.look()
        self._tls, self._lock, self._looked = tls, threading.Lock(), time.monotonic()

    def context(self) -> ssl.SSLContext:
        """With the certificate as it is to be shown now."""
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._looked = time.monotonic()
                try:
                    self._tls.look()
                except NoCertificate as error:
                    log.warning("the certificate stays as it is", error=str(error))
        return self._tls.context


class SecureServing(socketserver.BaseServer):
    """To be mixed into a server with threads: what it hears goes through TLS where a certificate was given."""

    certificate: FreshCertificate | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the client's own thread, so that one who never agrees holds up nobody."""
        if self.certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(CLIENT_SECONDS)
        try:
            secure = self.certificate.context().wrap_socket(request, server_side=True)
        except (OSError, ValueError):  # one that speaks something else
            return
        with secure:
            super().finish_request(secure, client_address)
