"""TLS of a server: a context whose certificate is looked after while connections are made with it.

The certificate is one of the data folder's own authority, or the one in given files, which somebody else renews: a
person, cert-manager, a cron job. Connections that are there stay; those from now on see the new one.
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
from penstock.web.tls_context import RenewedContext, load_pair

FOLDER = "pki"
"""Of the data folder: its authority, and what that signs."""
NAME = "tls"
"""Of the files of a certificate that penstock makes for its servers; the API has another."""
SPAN = own_authority.Span(lasts=timedelta(days=30), renewed_before=timedelta(days=10))
LOOK_SECONDS = 10.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
INGRESS_NAMES = tuple(f"broker-ingress.knative-eventing{ending}" for ending in (".svc.cluster.local", ".svc", ""))
"""The name that the embedded control plane has for the ingress, as a cluster does."""

Clock = Callable[[], datetime]

log = structlog.get_logger()


class NoCertificate(RuntimeError):
    """There is none that could be shown; the message says why and what to set."""


class ServerTls(RenewedContext):
    """A server's certificate, and the context that shows it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock = lambda: datetime.now(UTC),
        make: Callable[[datetime], KeyPair] | None = None,
    ) -> None:
        """`make`, which raises NoCertificate, gives a certificate other than that of this machine's servers."""
        super().__init__()
        self._make = make or partial(certificate, settings)
        self._clock = clock
        self._shown: KeyPair | None = None

    def look(self) -> bool:
        """Shows what is to be shown from now on; whether that is another certificate. Raises NoCertificate."""
        pair = self._make(self._clock())
        if pair == self._shown:
            return False
        with _told():
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
        """Looks again and again; what fails is told once, and the certificate stays as it is."""
        told = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if await asyncio.to_thread(self.look):
                    log.info("shows a new certificate")
                told = ""
            except NoCertificate as error:
                if str(error) != told:
                    log.warning("the certificate stays as it is", error=str(error))
                told = str(error)


def certificate(settings: Settings, now: datetime) -> KeyPair:
    """The certificate of this machine's servers. Raises NoCertificate."""
    with _told():
        if settings.tls_cert_file is None:
            return own_authority.server(settings.data_dir / FOLDER, NAME, server_names(settings), SPAN, now)
        if settings.tls_key_file is None:
            raise NoCertificate("tls_cert_file is set and tls_key_file is not; a certificate needs its key")
        return KeyPair(settings.tls_cert_file.read_bytes(), settings.tls_key_file.read_bytes())


def service_certificate(settings: Settings, name: str, hosts: Sequence[str], now: datetime) -> KeyPair:
    """One of the data folder's own authority for Services of the embedded control plane. Raises NoCertificate."""
    with _told():
        return own_authority.server(settings.data_dir / FOLDER, name, hosts, SPAN, now)


class PassingCertificate:
    """The same for a server that comes and goes with its Pod: it is kept in memory, and no file of it stays behind."""

    def __init__(self, settings: Settings, name: str, hosts: Sequence[str]) -> None:
        self._folder, self._name, self._hosts = settings.data_dir / FOLDER, name, tuple(hosts)
        self._held: KeyPair | None = None

    def __call__(self, now: datetime) -> KeyPair:
        """The certificate to show now. Raises NoCertificate."""
        with _told():
            self._held = own_authority.passing(self._folder, self._name, self._hosts, SPAN, now, held=self._held)
        return self._held


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What keeps a certificate from being read or made is a NoCertificate."""
    try:
        yield
    except OSError as error:
        raise NoCertificate(f"{error.filename} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NoCertificate(str(error)) from error


def server_names(settings: Settings) -> tuple[str, ...]:
    """All names and addresses under which the servers are reached, by others and from here."""
    listening = own_names() if settings.host in EVERYWHERE else (settings.host,)
    bases = (settings.address_base, settings.tls_address_base)
    given = [name for base in bases if base and (name := urlsplit(base).hostname)]
    return tuple(dict.fromkeys((*LOOPBACK, *INGRESS_NAMES, *given, *listening)))


def trusted_by_clients(settings: Settings, now: datetime) -> str | None:
    """The certificates by which clients believe these servers; None where those of every system are enough."""
    if settings.tls_ca_file is not None:
        return settings.tls_ca_file.read_text()
    if settings.tls_cert_file is not None:
        return None
    return own_authority.authority_certificate(settings.data_dir / FOLDER, now).decode()


def show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Gives the certificate to a context, which is not in use yet. Raises NoCertificate where its key does not fit."""
    with _told():
        load_pair(context, pair.certificate, pair.key)


# TLS for small servers that answer each client in a thread of its own: metrics and probes.

CLIENT_SECONDS = 10.0
"""Time for a client to agree upon TLS."""


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
