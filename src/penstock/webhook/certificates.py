"""The webhook's certificates: created, renewed and kept in a Secret, trusted by the API server, shown by the server.

The API server gets a new authority in every `caBundle` before a server shows a certificate signed by it, and the bundle
has the previous authority until that expires: so every replica, old or new, is trusted at all times. Replicas do not
coordinate: of two that write the Secret at once, the second gets a conflict and reads what the first wrote.
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
from penstock.web.certificates import KeyPair, is_signed_by, issue_certificate, lasts_for, make_authority, names_all
from penstock.web.tls_context import RenewedContext

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
_REQUIRED = (_CA, _CA_KEY, _SERVER, _SERVER_KEY)
SERVICE = "penstock-webhook"
CERTIFICATES_SECRET = f"{SERVICE}-certs"
MUTATING = "webhook.eventing.penstock.dev"
VALIDATING = "validation.webhook.eventing.penstock.dev"
_REGISTRATION = "admissionregistration.k8s.io/v1"
_MUTATING = Kind(_REGISTRATION, "MutatingWebhookConfiguration")
_VALIDATING = Kind(_REGISTRATION, "ValidatingWebhookConfiguration")
_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
CHECK_SECONDS = 60.0
RETRY_SECONDS = 5.0
FAILURES = (KubeError, OSError, ValueError)
"""What a round may raise: errors of the API and of files, and invalid certificates in the Secret."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Certificates:
    """An authority, the one before it, and the certificate of the server."""

    authority: KeyPair
    server: KeyPair
    former: bytes = b""
    """Empty if no former authority has to be trusted."""

    @property
    def bundle(self) -> bytes:
        """What clients have to trust."""
        return self.authority.certificate + self.former


def certificates_in(data: Mapping[str, str]) -> Certificates | None:
    """The certificates in the data of the Secret; None if something is missing or invalid."""
    try:
        read = {name: base64.b64decode(data.get(name) or "", validate=True) for name in (*_REQUIRED, _FORMER_CA)}
    except (binascii.Error, ValueError):
        return None
    if not all(read[name] for name in _REQUIRED):
        return None
    return Certificates(KeyPair(read[_CA], read[_CA_KEY]), KeyPair(read[_SERVER], read[_SERVER_KEY]), read[_FORMER_CA])


def secret_data(held: Certificates) -> dict[str, str]:
    """The certificates as the data of a Secret."""
    pairs = {
        _CA: held.authority.certificate,
        _CA_KEY: held.authority.key,
        _SERVER: held.server.certificate,
        _SERVER_KEY: held.server.key,
        _FORMER_CA: held.former,
    }
    return {name: base64.b64encode(value).decode() for name, value in pairs.items() if value}


def renewed(held: Certificates | None, hosts: tuple[str, ...], now: datetime) -> Certificates:
    """The certificates to hold from now on: the same object unless one is missing, invalid or due for renewal."""
    if held is None or not lasts_for(held.authority.certificate, timedelta(0), now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        return Certificates(authority, issue_certificate(authority, hosts[0], hosts, SERVER_LASTS, now))
    if not lasts_for(held.authority.certificate, AUTHORITY_RENEWED_BEFORE, now):
        authority = make_authority("penstock-webhook", AUTHORITY_LASTS, now)
        server = issue_certificate(authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(authority, server, held.authority.certificate)
    if not _serves(held, hosts, now):
        server = issue_certificate(held.authority, hosts[0], hosts, SERVER_LASTS, now)
        return Certificates(held.authority, server, _unexpired(held.former, now))
    return held


def _serves(held: Certificates, hosts: tuple[str, ...], now: datetime) -> bool:
    certificate = held.server.certificate
    return (
        lasts_for(certificate, SERVER_RENEWED_BEFORE, now)
        and names_all(certificate, hosts)
        and is_signed_by(certificate, held.authority.certificate)
    )


def _unexpired(former: bytes, now: datetime) -> bytes:
    return former if former and lasts_for(former, timedelta(0), now) else b""


class BundleHolder(NamedTuple):
    """An object with a `caBundle` for this webhook."""

    kind: Kind
    name: str


def host_names() -> tuple[str, ...]:
    """The host names of the webhook; the API server uses the first one."""
    short = f"{SERVICE}.{SYSTEM_NAMESPACE}"
    return (f"{short}.svc", f"{short}.svc.cluster.local", short, SERVICE)


def converted_definitions() -> list[str]:
    """The names of the CustomResourceDefinitions whose versions the webhook converts."""
    named = {(one["spec"]["group"], one["spec"]["names"]["kind"]): one["metadata"]["name"] for one in crds()}
    return [named[kind] for kind in CONVERSIONS]


def bundle_holders() -> list[BundleHolder]:
    """All objects that need the bundle."""
    definitions = [BundleHolder(_DEFINITION, name) for name in converted_definitions()]
    return [BundleHolder(_MUTATING, MUTATING), BundleHolder(_VALIDATING, VALIDATING), *definitions]


def with_bundle(obj: Obj, bundle: bytes) -> Obj | None:
    """The object with the bundle wherever it refers to this webhook; None if nothing changes."""
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


class CertificateStore(Protocol):
    """The part of the cluster's API that is needed for Secret and bundles."""

    async def read(self, kind: Kind, key: Key) -> Obj | None:
        """The object; None if it does not exist."""

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        """Creates the object."""

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        """Replaces the object, if it is still the version that was read."""


class CertificateRotation:
    """Keeps the server's certificate valid, and has it trusted before it is shown."""

    def __init__(
        self,
        store: CertificateStore,
        tls: RenewedContext,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._tls, self._clock = store, tls, clock
        self._shown: Certificates | None = None

    async def run(self) -> None:
        """Rotates the certificates until cancelled. After a failure it retries, and the certificate stays as it is."""
        while True:
            pause = CHECK_SECONDS
            try:
                await self.rotate()
            except FAILURES as error:
                pause = RETRY_SECONDS
                log.warning("the webhook's certificates could not be rotated", error=describe(error))
            await asyncio.sleep(pause)

    async def rotate(self) -> None:
        """One round: Secret, trust, server, in this order."""
        held = await self._current()
        for holder in bundle_holders():
            await self._write_bundle(holder, held.bundle)
        if held != self._shown:
            self._tls.show(held.server.certificate, held.server.key)
            self._shown = held
            log.info("the webhook shows a new certificate")

    async def _current(self) -> Certificates:
        """The certificates in the Secret, renewed if that is due."""
        secret = await self._store.read(SECRET, Key(SYSTEM_NAMESPACE, CERTIFICATES_SECRET))
        held = certificates_in((secret or {}).get("data") or {})
        wanted = renewed(held, host_names(), self._clock())
        if wanted is held:
            return wanted
        try:
            await (self._store.create if secret is None else self._store.replace)(SECRET, _secret(secret, wanted))
        except Conflict:
            return await self._current()  # another replica was faster; its certificates count
        log.info("created new certificates for the webhook", secret=CERTIFICATES_SECRET)
        return wanted

    async def _write_bundle(self, holder: BundleHolder, bundle: bytes) -> None:
        obj = await self._store.read(holder.kind, Key("", holder.name))
        changed = None if obj is None else with_bundle(obj, bundle)
        if changed is None:
            return
        try:
            await self._store.replace(holder.kind, changed)
        except Conflict:
            await self._write_bundle(holder, bundle)


def _secret(before: Obj | None, held: Certificates) -> Obj:
    metadata = {"name": CERTIFICATES_SECRET, "namespace": SYSTEM_NAMESPACE}
    fresh = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return {**(before or fresh), "data": secret_data(held)}
