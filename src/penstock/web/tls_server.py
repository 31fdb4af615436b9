"""TLS of servers: a context whose certificate is renewed while it is in use.

The certificate is signed by the data folder's own authority, or read from given files that an administrator or
cert-manager renews. Open connections stay; new ones get the new certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import structlog

from penstock.runtime.hosts import EVERYWHERE, own_names
from penstock.runtime.lifecycle import Lifecycle
from penstock.settings import Settings
from penstock.web import own_authority
from penstock.web.certificates import KeyPair
from penstock.web.tls_context import RenewedContext

FOLDER = "pki"
"""Folder in the data folder with its authority and the certificates that it signs."""
NAME = "tls"
"""File name of the certificate of penstock's servers, but for the API, which has its own."""
SPAN = own_authority.Span(lasts=timedelta(days=30), renewed_before=timedelta(days=10))
LOOK_SECONDS = 10.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
INGRESS_NAMES = tuple(f"broker-ingress.knative-eventing{ending}" for ending in (".svc.cluster.local", ".svc", ""))
"""The names of the ingress in the embedded control plane, as on a cluster."""

Clock = Callable[[], datetime]

log = structlog.get_logger()
CLIENT_SECONDS = 10.0
"""Time for a client's TLS handshake."""


class NoCertificate(RuntimeError):
    """There is no certificate to show; the message says why and what to set."""


class ServerTls(RenewedContext):
    """A server's certificate, and the context that shows it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock = lambda: datetime.now(UTC),
        make: Callable[[datetime], KeyPair] | None = None,
    ) -> None:
        """`make` returns the certificate, by default that of this machine's servers. It may raise NoCertificate."""
        super().__init__()
        self._make = make or partial(certificate, settings)
        self._clock = clock
        self._shown: KeyPair | None = None

    def look(self) -> bool:
        """Shows the certificate that is current; whether it is another than before. Raises NoCertificate."""
        pair = self._make(self._clock())
        if pair == self._shown:
            return False
        with _as_no_certificate():
            self.show(pair.certificate, pair.key)
        self._shown = pair
        return True

    def begin(self, lifecycle: Lifecycle) -> None:
        """Shows the first certificate; without one, the component fails. Raises NoCertificate."""
        try:
            self.look()
        except NoCertificate as error:
            lifecycle.fail(str(error))
            raise

    async def run(self) -> None:
        """Renews the certificate until cancelled. A failure is logged once, and the certificate stays as it is."""
        logged = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if await asyncio.to_thread(self.look):
                    log.info("shows a new certificate")
                logged = ""
            except NoCertificate as error:
                if str(error) != logged:
                    log.warning("the certificate stays as it is", error=str(error))
                logged = str(error)


def certificate(settings: Settings, now: datetime) -> KeyPair:
    """The certificate of this machine's servers. Raises NoCertificate."""
    with _as_no_certificate():
        if settings.tls_cert_file is None:
            return own_authority.server_certificate(settings.data_dir / FOLDER, NAME, server_names(settings), SPAN, now)
        if settings.tls_key_file is None:
            raise NoCertificate("tls_cert_file is set and tls_key_file is not; a certificate needs its key")
        return KeyPair(settings.tls_cert_file.read_bytes(), settings.tls_key_file.read_bytes())


def service_certificate(settings: Settings, name: str, hosts: Sequence[str], now: datetime) -> KeyPair:
    """A certificate of the data folder's authority for Services of the embedded control plane. Raises NoCertificate."""
    with _as_no_certificate():
        return own_authority.server_certificate(settings.data_dir / FOLDER, name, hosts, SPAN, now)


class InMemoryCertificate:
    """The same for a server that exists only as long as its Pod: kept in memory, so that no files are left over."""

    def __init__(self, settings: Settings, name: str, hosts: Sequence[str]) -> None:
        self._folder, self._name, self._hosts = settings.data_dir / FOLDER, name, tuple(hosts)
        self._held: KeyPair | None = None

    def __call__(self, now: datetime) -> KeyPair:
        """The certificate to show now. Raises NoCertificate."""
        with _as_no_certificate():
            self._held = own_authority.in_memory_certificate(
                self._folder, self._name, self._hosts, SPAN, now, held=self._held
            )
        return self._held


@contextlib.contextmanager
def _as_no_certificate() -> Iterator[None]:
    """Raises errors of reading or creating a certificate as NoCertificate."""
    try:
        yield
    except OSError as error:
        raise NoCertificate(f"{error.filename} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NoCertificate(str(error)) from error


def server_names(settings: Settings) -> tuple[str, ...]:
    """All names and addresses of the servers, for remote and local clients."""
    listening = own_names() if settings.host in EVERYWHERE else (settings.host,)
    bases = (settings.address_base, settings.tls_address_base)
    given = [name for base in bases if base and (name := urlsplit(base).hostname)]
    return tuple(dict.fromkeys((*LOOPBACK, *INGRESS_NAMES, *given, *listening)))


def trusted_by_clients(settings: Settings, now: datetime) -> str | None:
    """The certificates that clients of these servers have to trust; None if the system's are enough."""
    if settings.tls_ca_file is not None:
        return settings.tls_ca_file.read_text()
    if settings.tls_cert_file is not None:
        return None
    return own_authority.authority_certificate(settings.data_dir / FOLDER, now).decode()


class FreshCertificate:
    """The context of a server with threads, renewed when a client connects."""

    def __init__(self, tls: ServerTls) -> None:
        """Raises NoCertificate."""
        tls.look()
        self._tls, self._lock, self._looked = tls, threading.Lock(), time.monotonic()

    def context(self) -> ssl.SSLContext:
        """The context with the current certificate."""
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._looked = time.monotonic()
                try:
                    self._tls.look()
                except NoCertificate as error:
                    log.warning("the certificate stays as it is", error=str(error))
        return self._tls.context


class SecureServing(socketserver.BaseServer):
    """Mixin for small servers that handle each client in a thread (metrics, probes): TLS if there is a certificate."""

    certificate: FreshCertificate | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Runs the handshake in the client's own thread, so that a stalled one does not block others."""
        if self.certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(CLIENT_SECONDS)
        try:
            secure = self.certificate.context().wrap_socket(request, server_side=True)
        except (OSError, ValueError):  # not a TLS client, or a failed handshake
            return
        with secure:
            super().finish_request(secure, client_address)
