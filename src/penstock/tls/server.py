"""TLS of a server: a context whose certificate is looked after while connections are made with it.

The certificate is one of the data folder's own authority, or the one in given files, which somebody else renews: a
person, cert-manager, a cron job. Connections that are there stay; those from now on see the new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from penstock.certificates import KeyPair
from penstock.settings import Settings
from penstock.tls import own
from penstock.tls.names import server_names

FOLDER = "pki"
"""Of the data folder: its authority, and what that signs."""
NAME = "tls"
"""Of the files of a certificate that penstock makes for its servers; the API has another."""
SPAN = own.Span(lasts=timedelta(days=30), renewed_before=timedelta(days=10))
LOOK_SECONDS = 10.0

Clock = Callable[[], datetime]

log = structlog.get_logger()


class NoCertificate(RuntimeError):
    """There is none that could be shown; the message says why and what to set."""


class ServerTls:
    """A server's certificate, and the context that shows it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock = lambda: datetime.now(UTC),
        make: Callable[[datetime], KeyPair] | None = None,
    ) -> None:
        """`make`, which raises NoCertificate, gives a certificate other than that of this machine's servers."""
        self._make = make or partial(certificate, settings)
        self._clock = clock
        self._shown: KeyPair | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["http/1.1"])

    def look(self) -> bool:
        """Shows what is to be shown from now on; whether that is another certificate. Raises NoCertificate."""
        pair = self._make(self._clock())
        if pair == self._shown:
            return False
        # A pair that does not fit would leave the context with half of it: it is tried elsewhere first.
        show(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
        show(self.context, pair)
        self._shown = pair
        return True

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
            return own.server(settings.data_dir / FOLDER, NAME, server_names(settings), SPAN, now)
        if settings.tls_key_file is None:
            raise NoCertificate("tls_cert_file is set and tls_key_file is not; a certificate needs its key")
        return KeyPair(settings.tls_cert_file.read_bytes(), settings.tls_key_file.read_bytes())


def service_certificate(settings: Settings, name: str, hosts: Sequence[str], now: datetime) -> KeyPair:
    """One of the data folder's own authority for Services of the embedded control plane. Raises NoCertificate."""
    with _told():
        return own.server(settings.data_dir / FOLDER, name, hosts, SPAN, now)


class PassingCertificate:
    """The same for a server that comes and goes with its Pod: it is kept in memory, and no file of it stays behind."""

    def __init__(self, settings: Settings, name: str, hosts: Sequence[str]) -> None:
        self._folder, self._name, self._hosts = settings.data_dir / FOLDER, name, tuple(hosts)
        self._held: KeyPair | None = None

    def __call__(self, now: datetime) -> KeyPair:
        """The certificate to show now. Raises NoCertificate."""
        with _told():
            self._held = own.passing(self._folder, self._name, self._hosts, SPAN, now, held=self._held)
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


def trusted_by_clients(settings: Settings, now: datetime) -> str | None:
    """The certificates by which clients believe these servers; None where those of every system are enough."""
    if settings.tls_ca_file is not None:
        return settings.tls_ca_file.read_text()
    if settings.tls_cert_file is not None:
        return None
    return own.authority_certificate(settings.data_dir / FOLDER, now).decode()


def show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Gives the certificate to a context, which may be in use. Raises NoCertificate where it and its key do not fit.

    Python's ssl reads files only: they exist for this moment, in a folder that nobody else may enter.
    """
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "server.crt"), Path(folder, "server.key")
        for path, content in ((certificate, pair.certificate), (key, pair.key)):
            path.write_bytes(content)
        try:
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise NoCertificate(f"the certificate and its key cannot be used together: {error}") from error
