"""Keeps the webhook's certificates: in their Secret, in the trust of the API server, and in the server that shows them.

Every replica does the same, and none needs the others: whoever writes the Secret second reads what the first wrote.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import structlog

from penstock.kube.errors import Conflict, KubeError
from penstock.kube.kinds import SECRET, Key, Kind, Obj
from penstock.observability.logs import describe
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.registry import CONVERSIONS, crds
from penstock.web.certificates import KeyPair, is_signed_by, issue, lasts_for, make_authority, names_all
from penstock.web.tls_context import RenewedContext

# The webhook's certificates as a Secret keeps them, and when they are made anew. Pure: data in, data out, time given.
# Whoever trusts the authority is told of a new one before a server shows a certificate of it, and believes the one
# before for as long as it lasts: so every replica, old or new, is believed at every moment.

AUTHORITY_LASTS = timedelta(days=3650)
AUTHORITY_RENEWED_BEFORE = timedelta(days=365)
SERVER_LASTS = timedelta(days=30)
SERVER_RENEWED_BEFORE = timedelta(days=10)

_CA, _CA_KEY, _FORMER_CA, _SERVER, _SERVER_KEY = (
    "ca-cert.pem",
    "ca-key.pem",
    "former-ca-cert.pem",
    "server-cert.pem",
    "server-key.pem",
)


@dataclass(frozen=True)
class Certificates:
    """An authority, the one before it, and the certificate of the server."""

    authority: KeyPair
    server: KeyPair
    former: bytes = b""
    """Empty where there is none that anybody still has to trust."""

    @property
    def bundle(self) -> bytes:
        """What clients have to trust."""
        return self.authority.certificate + self.former


def certificates_in(data: Mapping[str, str]) -> Certificates | None:
    """What the Secret holds; None where something is missing or is not what it should be."""
    try:
        read = {name: base64.b64decode(data.get(name) or "", validate=True) for name in (*_NEEDED, _FORMER_CA)}
    except (binascii.Error, ValueError):
        return None
    if not all(read[name] for name in _NEEDED):
        return None
    return Certificates(KeyPair(read[_CA], read[_CA_KEY]), KeyPair(read[_SERVER], read[_SERVER_KEY]), read[_FORMER_CA])


_NEEDED = (_CA, _CA_KEY, _SERVER, _SERVER_KEY)


def secret_data(held: Certificates) -> dict[str, str]:
    """The same as the data of a Secret."""
    pairs = {
        _CA: held.authority.certificate,
        _CA_KEY: held.authority.key,
        _SERVER: held.server.certificate,
        _SERVER_KEY: held.server.key,
        _FORMER_CA: held.former,
    }
    return {name: base64.b64encode(value).decode() for name, value in pairs.items() if value}


def renewed(held: Certificates | None, hosts: tuple[str, ...], now: datetime) -> Certificates:
    """What should be held from now on: the very same object unless something is due, missing or does not fit."""
    if held is None or not lasts_for(held.authority.certificate, timedelta(0), now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        return Certificates(authority, issue(authority, hosts[0], hosts, SERVER_LASTS, now))
    if not lasts_for(held.authority.certificate, AUTHORITY_RENEWED_BEFORE, now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        server = issue(authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(authority, server, held.authority.certificate)
    if not _serves(held, hosts, now):
        server = issue(held.authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(held.authority, server, _still_of_use(held.former, now))
    return held


def _serves(held: Certificates, hosts: tuple[str, ...], now: datetime) -> bool:
    certificate = held.server.certificate
    return (
        lasts_for(certificate, SERVER_RENEWED_BEFORE, now)
        and names_all(certificate, hosts)
        and is_signed_by(certificate, held.authority.certificate)
    )


def _still_of_use(former: bytes, now: datetime) -> bytes:
    return former if former and lasts_for(former, timedelta(0), now) else b""


# Who trusts the webhook: the objects by which the API server finds it, and the `caBundle` in each of them. Pure.

SERVICE = "penstock-webhook"
CERTIFICATES_SECRET = f"{SERVICE}-certs"
MUTATING = "webhook.eventing.penstock.dev"
VALIDATING = "validation.webhook.eventing.penstock.dev"


_REGISTRATION = "admissionregistration.k8s.io/v1"
_MUTATING = Kind(_REGISTRATION, "MutatingWebhookConfiguration")
_VALIDATING = Kind(_REGISTRATION, "ValidatingWebhookConfiguration")
_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Trusting(NamedTuple):
    """An object that holds a `caBundle`."""

    kind: Kind
    name: str


def hosts() -> tuple[str, ...]:
    """The names that the API server calls the webhook by, the one it checks first."""
    short = f"{SERVICE}.{SYSTEM_NAMESPACE}"
    return (f"{short}.svc", f"{short}.svc.cluster.local", short, SERVICE)


def converted_definitions() -> list[str]:
    """The names of the definitions whose versions the webhook converts."""
    named = {(one["spec"]["group"], one["spec"]["names"]["kind"]): one["metadata"]["name"] for one in crds()}
    return [named[kind] for kind in CONVERSIONS]


def trusting() -> list[Trusting]:
    """Every object that has to hold the bundle."""
    definitions = [Trusting(_DEFINITION, name) for name in converted_definitions()]
    return [Trusting(_MUTATING, MUTATING), Trusting(_VALIDATING, VALIDATING), *definitions]


def with_bundle(obj: Obj, bundle: bytes) -> Obj | None:
    """The object with the bundle wherever it calls this webhook; None if it has it already, or calls others only."""
    wanted = base64.b64encode(bundle).decode()
    changed = copy.deepcopy(obj)
    for client in _clients(changed):
        if (client.get("service") or {}).get("name") == SERVICE:
            client["caBundle"] = wanted
    return None if changed == obj else changed


def _clients(obj: Obj) -> list[Obj]:
    """The `clientConfig`s of a webhook configuration or of a definition."""
    conversion = ((obj.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    holders = [*(obj.get("webhooks") or []), conversion]
    return [one["clientConfig"] for one in holders if isinstance(one.get("clientConfig"), dict)]


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
        for name in trusting():
            await self._tell(name, held.bundle)
        if held != self._shown:
            self._tls.show(held.server.certificate, held.server.key)
            self._shown = held
            log.info("the webhook shows a new certificate")

    async def _settled(self) -> Certificates:
        """The certificates that are in the Secret now, made anew if they had to be."""
        secret = await self._holder.read(SECRET, Key(SYSTEM_NAMESPACE, CERTIFICATES_SECRET))
        held = certificates_in((secret or {}).get("data") or {})
        wanted = renewed(held, hosts(), self._clock())
        if wanted is held:
            return wanted
        try:
            await (self._holder.create if secret is None else self._holder.replace)(SECRET, _secret(secret, wanted))
        except Conflict:
            return await self._settled()  # another replica was faster; what it wrote holds
        log.info("made new certificates for the webhook", secret=CERTIFICATES_SECRET)
        return wanted

    async def _tell(self, name: Trusting, bundle: bytes) -> None:
        obj = await self._holder.read(name.kind, Key("", name.name))
        changed = None if obj is None else with_bundle(obj, bundle)
        if changed is None:
            return
        try:
            await self._holder.replace(name.kind, changed)
        except Conflict:
            await self._tell(name, bundle)


def _secret(before: Obj | None, held: Certificates) -> Obj:
    metadata = {"name": CERTIFICATES_SECRET, "namespace": SYSTEM_NAMESPACE}
    fresh = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return {**(before or fresh), "data": secret_data(held)}
