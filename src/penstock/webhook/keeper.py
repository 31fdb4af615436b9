"""Keeps the webhook's certificates: in their Secret, in the trust of the API server, and in the server that shows them.

Every replica does the same, and none needs the others: whoever writes the Secret second reads what the first wrote.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import structlog

from penstock.observability.logs import describe
from penstock.resources.admission import SYSTEM_NAMESPACE, Obj
from penstock.webhook import trust
from penstock.webhook.cluster import CONFLICT, code_of
from penstock.webhook.keeping import Certificates, certificates_in, renewed, secret_data

LOOK_SECONDS = 60.0
RETRY_SECONDS = 5.0

log = structlog.get_logger()


class CertificateStore(Protocol):
    """Where Secret and bundles are; the cluster's API."""

    async def secret(self, name: str) -> Obj | None:
        """The Secret; None if there is none."""

    async def write_secret(self, secret: Obj) -> Obj:
        """Stores the Secret."""

    async def trusting(self, kind: str, name: str) -> Obj | None:
        """An object that holds a `caBundle`; None if there is none."""

    async def replace_trusting(self, kind: str, obj: Obj) -> None:
        """Stores it."""


class CertificateKeeper:
    """Sees to it that the server's certificate is valid, and trusted before it is shown."""

    def __init__(
        self,
        holder: CertificateStore,
        context: ssl.SSLContext,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._holder, self._context, self._clock = holder, context, clock
        self._shown: Certificates | None = None

    async def run(self) -> None:
        """Looks again and again; what fails is tried again soon, and meanwhile the certificate stays as it is."""
        while True:
            pause = LOOK_SECONDS
            try:
                await self.look()
            except Exception as error:
                pause = RETRY_SECONDS
                log.warning("the webhook's certificates could not be looked after", error=describe(error))
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """One round: Secret, trust, server, in this order."""
        held = await self._settled()
        for name in trust.trusting():
            await self._tell(name, held.bundle)
        if held != self._shown:
            show(self._context, held)
            self._shown = held
            log.info("the webhook shows a new certificate")

    async def _settled(self) -> Certificates:
        """The certificates that are in the Secret now, made anew if they had to be."""
        secret = await self._holder.secret(trust.SECRET)
        held = certificates_in((secret or {}).get("data") or {})
        wanted = renewed(held, trust.hosts(), self._clock())
        if wanted is held:
            return wanted
        try:
            await self._holder.write_secret(_secret(secret, wanted))
        except Exception as error:
            if code_of(error) != CONFLICT:
                raise
            return await self._settled()  # another replica was faster; what it wrote holds
        log.info("made new certificates for the webhook", secret=trust.SECRET)
        return wanted

    async def _tell(self, name: trust.Trusting, bundle: bytes) -> None:
        obj = await self._holder.trusting(name.kind, name.name)
        changed = None if obj is None else trust.with_bundle(obj, bundle)
        if changed is None:
            return
        try:
            await self._holder.replace_trusting(name.kind, changed)
        except Exception as error:
            if code_of(error) != CONFLICT:
                raise
            await self._tell(name, bundle)


def show(context: ssl.SSLContext, held: Certificates) -> None:
    """Gives the certificate to a server that may already run; connections from now on see it.

    Python's ssl reads files only: they exist for this moment, in a folder that nobody else may enter.
    """
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "server.crt"), Path(folder, "server.key")
        for path, content in ((certificate, held.server.certificate), (key, held.server.key)):
            path.write_bytes(content)
        context.load_cert_chain(certificate, key)


def _secret(before: Obj | None, held: Certificates) -> Obj:
    metadata = {"name": trust.SECRET, "namespace": SYSTEM_NAMESPACE}
    fresh = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return {**(before or fresh), "data": secret_data(held)}
