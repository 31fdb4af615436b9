"""Keeps the webhook's certificates: in their Secret, in the trust of the API server, and in the server that shows them.

Every replica does the same, and none needs the others: whoever writes the Secret second reads what the first wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import structlog

from penstock.kube.errors import Conflict, KubeError
from penstock.kube.kinds import SECRET, Key, Kind, Obj
from penstock.observability.logs import describe
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.tls.context import RenewedContext
from penstock.webhook import trust
from penstock.webhook.keeping import Certificates, certificates_in, renewed, secret_data

LOOK_SECONDS = 60.0
RETRY_SECONDS = 5.0
FAILURES = (KubeError, OSError, ValueError)
"""What a round may fail with: the API, files, and a Secret that does not hold certificates."""

log = structlog.get_logger()


class CertificateStore(Protocol):
    """Where Secret and bundles are; the cluster's API."""

    async def read(self, kind: Kind, key: Key) -> Obj | None:
        """The object; None if there is none."""

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """Creates the object."""

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        """Stores the object in place of the version it was read at."""


class CertificateKeeper:
    """Sees to it that the server's certificate is valid, and trusted before it is shown."""

    def __init__(
        self,
        holder: CertificateStore,
        tls: RenewedContext,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._holder, self._tls, self._clock = holder, tls, clock
        self._shown: Certificates | None = None

    async def run(self) -> None:
        """Looks again and again; what fails is tried again soon, and meanwhile the certificate stays as it is."""
        while True:
            pause = LOOK_SECONDS
            try:
                await self.look()
            except FAILURES as error:
                pause = RETRY_SECONDS
                log.warning("the webhook's certificates could not be looked after", error=describe(error))
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """One round: Secret, trust, server, in this order."""
        held = await self._settled()
        for name in trust.trusting():
            await self._tell(name, held.bundle)
        if held != self._shown:
            self._tls.show(held.server.certificate, held.server.key)
            self._shown = held
            log.info("the webhook shows a new certificate")

    async def _settled(self) -> Certificates:
        """The certificates that are in the Secret now, made anew if they had to be."""
        secret = await self._holder.read(SECRET, Key(SYSTEM_NAMESPACE, trust.SECRET))
        held = certificates_in((secret or {}).get("data") or {})
        wanted = renewed(held, trust.hosts(), self._clock())
        if wanted is held:
            return wanted
        try:
            await (self._holder.create if secret is None else self._holder.replace)(SECRET, _secret(secret, wanted))
        except Conflict:
            return await self._settled()  # another replica was faster; what it wrote holds
        log.info("made new certificates for the webhook", secret=trust.SECRET)
        return wanted

    async def _tell(self, name: trust.Trusting, bundle: bytes) -> None:
        obj = await self._holder.read(name.kind, Key("", name.name))
        changed = None if obj is None else trust.with_bundle(obj, bundle)
        if changed is None:
            return
        try:
            await self._holder.replace(name.kind, changed)
        except Conflict:
            await self._tell(name, bundle)


def _secret(before: Obj | None, held: Certificates) -> Obj:
    metadata = {"name": trust.SECRET, "namespace": SYSTEM_NAMESPACE}
    fresh = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return {**(before or fresh), "data": secret_data(held)}
