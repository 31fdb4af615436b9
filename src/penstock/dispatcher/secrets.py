"""The Secrets that routes need: a cache of them, and the signatures made with them.

A route begins to send when all of its Secrets are cached, so that an attempt never waits for one and is never made
without. Routes carry the version of each Secret: a new version is read from the Kubernetes API, and the former one is
used until then. If a route says that there is no valid Secret, the cached one is dropped.

Deliveries are signed as Standard Webhooks defines it: the body, with an id and the time of the attempt. The id is that
of the event as this route sends it: the same for every attempt, so that a receiver recognizes a repeat, and different
for each route.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, NamedTuple

import httpx2
import structlog

from penstock.contract.routes import Route, SecretVersion
from penstock.dispatcher.cursors.cursor import STAGE_NAMES, Stage
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.matched_record import Matched
from penstock.kube.paths import NotASegment, api_path
from penstock.oidc.tokens import NoAccess, api_client, message_of
from penstock.resources.secrets import MalformedSecret, SigningKeys, client_certificate, content_of, signing_keys
from penstock.runtime.rate_limit import pause_after
from penstock.settings import Settings
from penstock.web.tls_clients import ClientCertificate

log = structlog.get_logger()

RETRY_SECONDS = (1.0, 15.0)
"""First and longest pause before a Secret is read again."""


class SecretName(NamedTuple):
    """Namespace and name of a Secret."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NoSecret(Exception):  # it is read again later
    """The Secret cannot be read or is invalid; the text says why."""


class SecretRequests:
    """Reads Secrets from the Kubernetes API; connects when the first one is needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None

    async def __call__(self, name: SecretName) -> dict[str, bytes]:
        """The data of the Secret. Raises NoSecret."""
        try:
            path = api_path("v1", "secrets", name.namespace, name.name)
            if self._client is None:
                self._client = api_client(self._settings)
            response = await self._client.get(path)
            if response.status_code >= 300:
                raise NoSecret(f"the Secret {name} cannot be read: {message_of(response)}")
            return content_of(response.json())
        except (NoAccess, NotASegment, httpx2.HTTPError) as error:
            raise NoSecret(f"the Secret {name} cannot be read: {error or type(error).__name__}") from error
        except (ValueError, TypeError, AttributeError) as error:
            # The text of other errors is not shown: it may quote the Secret.
            problem = str(error) if isinstance(error, MalformedSecret) else "invalid response of the API"
            raise NoSecret(f"the Secret {name} cannot be read: {problem}") from None

    async def close(self) -> None:
        """Closes its connections."""
        if self._client is not None:
            await self._client.aclose()


Read = Callable[[SecretName], Awaitable[dict[str, bytes]]]
Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]
"""Starts work whose failure ends the component."""
Changed = Callable[[str], None]
"""Called with the uid of a route that may send now, or whose reason not to has changed."""


class _CachedSecret:
    """One Secret, for one use."""

    def __init__(self, read: Callable[[Mapping[str, bytes]], Any]) -> None:
        self.read = read
        self.routes: dict[str, str] = {}
        """The routes that need it, with the version that each names; empty: there is no valid one."""
        self.wanted = ""
        self.version = ""
        """The version that is cached; empty: none."""
        self.value: Any = None
        self.failure = ""
        self.asking: asyncio.Task[Any] | None = None


class SecretCache:
    """The Secrets of all routes of a task."""

    def __init__(self, read: Read, start: Start) -> None:
        self._read_secret, self._start = read, start
        self.changed: Changed = lambda _: None
        self._cached: dict[tuple[str, SecretName], _CachedSecret] = {}
        self._of_route: dict[str, list[tuple[str, SecretName]]] = {}

    def follow(self, route: Route) -> None:
        """Caches what the route, as given now, needs."""
        uses = list(_uses(route))
        before = self._of_route.get(route.uid, [])
        if not uses and not before:
            return
        self._release(route.uid, [use for use, _, _ in uses])
        if uses:
            self._of_route[route.uid] = [use for use, _, _ in uses]
        for use, secret, read in uses:
            cached = self._cached.get(use)
            if cached is None:
                cached = self._cached[use] = _CachedSecret(read)
            cached.routes[route.uid] = secret.version
            self._want(use[1], cached, secret.version)

    def forget(self, uid: str) -> None:
        """The route is gone."""
        if uid in self._of_route:
            self._release(uid, [])

    def lacking(self, route: Route) -> str | None:
        """Why the route may not send; None: it may; empty: its Secrets are still being read."""
        for use in self._of_route.get(route.uid, ()):
            cached = self._cached[use]
            if not cached.routes[route.uid]:
                return f"the Secret {use[1]} is missing or malformed"
            if not cached.version:
                return cached.failure
        return None

    def signing(self, route: Route) -> SigningKeys | None:
        """The keys that sign the route's deliveries; None where they are not cached."""
        keys: SigningKeys | None = self._value(SIGNING, route.namespace, route.signing)
        return keys

    def certificate(self, route: Route) -> ClientCertificate | None:
        """The route's client certificate for TLS; None where it is not cached."""
        found: ClientCertificate | None = self._value(CLIENT_CERTIFICATE, route.namespace, route.client_certificate)
        return found

    def _value(self, use: str, namespace: str, secret: SecretVersion | None) -> Any:
        cached = None if secret is None else self._cached.get((use, SecretName(namespace, secret.name)))
        return None if cached is None or not cached.version else cached.value

    def _want(self, name: SecretName, cached: _CachedSecret, version: str) -> None:
        if version:
            cached.wanted = version
        elif not any(cached.routes.values()):
            cached.wanted = cached.version = cached.failure = ""
            cached.value = None
        if version and cached.version != version and (cached.asking is None or cached.asking.done()):
            cached.asking = self._start(self._read(name, cached), f"Secret {name}")

    async def _read(self, name: SecretName, cached: _CachedSecret) -> None:
        """Reads until the wanted version is cached, or none is wanted any more."""
        failures = 0
        while cached.routes and cached.wanted and cached.version != cached.wanted:
            wanted = cached.wanted
            try:
                value = self._parse(name, cached, await self._read_secret(name))
            except NoSecret as problem:
                failures += 1
                await self._failed(name, cached, str(problem), failures)
                continue
            if cached.wanted == wanted:
                cached.version, cached.value, cached.failure = wanted, value, ""
                self._notify(cached)

    def _parse(self, name: SecretName, cached: _CachedSecret, content: Mapping[str, bytes]) -> Any:
        try:
            return cached.read(content)
        except MalformedSecret as problem:
            raise NoSecret(f"the Secret {name} cannot be used: {problem}") from None

    async def _failed(self, name: SecretName, cached: _CachedSecret, problem: str, failures: int) -> None:
        if failures == 1:
            log.warning("a Secret that deliveries need cannot be used", secret=str(name), problem=problem)
        cached.failure = problem
        if not cached.version:
            self._notify(cached)
        await asyncio.sleep(pause_after(failures, *RETRY_SECONDS))

    def _notify(self, cached: _CachedSecret) -> None:
        for uid in tuple(cached.routes):
            self.changed(uid)

    def _release(self, uid: str, needed: list[tuple[str, SecretName]]) -> None:
        for use in self._of_route.pop(uid, []):
            if use in needed:
                continue
            cached = self._cached[use]
            cached.routes.pop(uid, None)
            if not cached.routes:
                del self._cached[use]


SIGNING, CLIENT_CERTIFICATE = "signing", "client certificate"

_Use = tuple[tuple[str, SecretName], SecretVersion, Callable[[Mapping[str, bytes]], Any]]


def _uses(route: Route) -> Iterator[_Use]:
    if route.signing is not None:
        yield (SIGNING, SecretName(route.namespace, route.signing.name)), route.signing, signing_keys
    if route.client_certificate is not None:
        secret = route.client_certificate
        yield (CLIENT_CERTIFICATE, SecretName(route.namespace, secret.name)), secret, _certificate


def _certificate(content: Mapping[str, bytes]) -> ClientCertificate:
    pair = client_certificate(content)
    try:
        return ClientCertificate(pair)
    except ValueError as error:
        raise MalformedSecret(str(error)) from None


ID_BYTES = 20


def message_id(route: Route, stage: Stage, record: Matched, payload: StagePayload | None) -> str:
    """The id by which a receiver recognizes a delivery that it gets more than once."""
    ident, source, _ = record.identity
    if stage is Stage.REPLY and payload is not None:
        ident, source = payload.reply.id, payload.reply.source
    parts = (route.uid, STAGE_NAMES[stage], source, ident)
    # The lengths make the concatenation unambiguous.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]
    return "msg_" + base64.b32encode(digest).decode().lower()


def signature_lines(keys: SigningKeys, ident: str, timestamp: int, body: bytes) -> bytes:
    """The header lines, with a signature for each key."""
    signed = b"%b.%d.%b" % (ident.encode(), timestamp, body)
    signatures = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    return b"webhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n" % (
        ident.encode(),
        timestamp,
        b" ".join(signatures),
    )
