"""The Secrets that routes need, kept while a route needs them.

A route begins to send when all of its Secrets are here, so that an attempt never waits for one and never goes without.
The control plane tells which version there is; another one is read anew, and until it is here the one before holds.
Where the control plane finds none of use, what was read is forgotten.
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

# Asks the Kubernetes API for a Secret, with the credentials that deliveries get their tokens by.


class SecretPlace(NamedTuple):
    """Which Secret."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NoSecret(Exception):  # it is asked for again
    """The Secret cannot be had, or is of no use; the text says why."""


class SecretRequests:
    """A connection to the API, made when the first Secret is needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None

    async def __call__(self, place: SecretPlace) -> dict[str, bytes]:
        """What the Secret holds. Raises NoSecret."""
        try:
            path = api_path("v1", "secrets", place.namespace, place.name)
            if self._client is None:
                self._client = api_client(self._settings)
            answer = await self._client.get(path)
            if answer.status_code >= 300:
                raise NoSecret(f"the Secret {place} cannot be read: {message_of(answer)}")
            return content_of(answer.json())
        except (NoAccess, NotASegment, httpx2.HTTPError) as error:
            raise NoSecret(f"the Secret {place} cannot be read: {error or type(error).__name__}") from error
        except (ValueError, TypeError, AttributeError) as error:
            # What could not be read is not shown: it may be the Secret.
            problem = str(error) if isinstance(error, MalformedSecret) else "the answer of the API is none"
            raise NoSecret(f"the Secret {place} cannot be read: {problem}") from None

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.aclose()


log = structlog.get_logger()

AGAIN_SECONDS = (1.0, 15.0)
"""First and longest pause before a Secret is asked for again."""

Ask = Callable[[SecretPlace], Awaitable[dict[str, bytes]]]
Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]
"""Begins work that belongs to somebody who ends when it fails."""
Changed = Callable[[str], None]
"""Told the uid of a route that may send now, or the reason why it may not has changed."""


class _Kept:
    """One Secret, for one purpose."""

    def __init__(self, read: Callable[[Mapping[str, bytes]], Any]) -> None:
        self.read = read
        self.routes: dict[str, str] = {}
        """Who needs it, and in which version; empty: none of use is known."""
        self.wanted = ""
        self.version = ""
        """Of what is here; empty: nothing is."""
        self.value: Any = None
        self.failure = ""
        self.asking: asyncio.Task[Any] | None = None


class SecretCache:
    """All Secrets of a task."""

    def __init__(self, ask: Ask, start: Start) -> None:
        self._ask, self._start = ask, start
        self.changed: Changed = lambda _: None
        self._kept: dict[tuple[str, SecretPlace], _Kept] = {}
        self._of_route: dict[str, list[tuple[str, SecretPlace]]] = {}

    def follow(self, route: Route) -> None:
        """The route is as given from now on."""
        uses = list(_uses(route))
        before = self._of_route.get(route.uid, [])
        if not uses and not before:
            return
        self._let_go(route.uid, [use for use, _, _ in uses])
        if uses:
            self._of_route[route.uid] = [use for use, _, _ in uses]
        for use, secret, read in uses:
            kept = self._kept.get(use)
            if kept is None:
                kept = self._kept[use] = _Kept(read)
            kept.routes[route.uid] = secret.version
            self._want(use[1], kept, secret.version)

    def forget(self, uid: str) -> None:
        """The route is gone."""
        if uid in self._of_route:
            self._let_go(uid, [])

    def lacking(self, route: Route) -> str | None:
        """Why the route may not send; None: it may. Empty: that is being found out."""
        for use in self._of_route.get(route.uid, ()):
            kept = self._kept[use]
            if not kept.routes[route.uid]:
                return f"the Secret {use[1]} is missing or malformed"
            if not kept.version:
                return kept.failure
        return None

    def signing(self, route: Route) -> SigningKeys | None:
        """What the route's deliveries are signed with; None where it is not here."""
        keys: SigningKeys | None = self._value(SIGNING, route.namespace, route.signing)
        return keys

    def certificate(self, route: Route) -> ClientCertificate | None:
        """What the route shows over TLS; None where it is not here."""
        found: ClientCertificate | None = self._value(SHOWING, route.namespace, route.client_certificate)
        return found

    def _value(self, use: str, namespace: str, secret: SecretVersion | None) -> Any:
        kept = None if secret is None else self._kept.get((use, SecretPlace(namespace, secret.name)))
        return None if kept is None or not kept.version else kept.value

    def _want(self, place: SecretPlace, kept: _Kept, version: str) -> None:
        if version:
            kept.wanted = version
        elif not any(kept.routes.values()):
            kept.wanted = kept.version = kept.failure = ""
            kept.value = None
        if version and kept.version != version and (kept.asking is None or kept.asking.done()):
            kept.asking = self._start(self._read(place, kept), f"Secret {place}")

    async def _read(self, place: SecretPlace, kept: _Kept) -> None:
        """Until what is here is what is wanted, or nothing is."""
        failures = 0
        while kept.routes and kept.wanted and kept.version != kept.wanted:
            wanted = kept.wanted
            try:
                value = self._understood(place, kept, await self._ask(place))
            except NoSecret as problem:
                failures += 1
                await self._failed(place, kept, str(problem), failures)
                continue
            if kept.wanted == wanted:
                kept.version, kept.value, kept.failure = wanted, value, ""
                self._tell(kept)

    def _understood(self, place: SecretPlace, kept: _Kept, content: Mapping[str, bytes]) -> Any:
        try:
            return kept.read(content)
        except MalformedSecret as problem:
            raise NoSecret(f"the Secret {place} cannot be used: {problem}") from None

    async def _failed(self, place: SecretPlace, kept: _Kept, problem: str, failures: int) -> None:
        if failures == 1:
            log.warning("a Secret that deliveries need cannot be used", secret=str(place), problem=problem)
        kept.failure = problem
        if not kept.version:
            self._tell(kept)
        await asyncio.sleep(pause_after(failures, *AGAIN_SECONDS))

    def _tell(self, kept: _Kept) -> None:
        for uid in tuple(kept.routes):
            self.changed(uid)

    def _let_go(self, uid: str, needed: list[tuple[str, SecretPlace]]) -> None:
        for use in self._of_route.pop(uid, []):
            if use in needed:
                continue
            kept = self._kept[use]
            kept.routes.pop(uid, None)
            if not kept.routes:
                del self._kept[use]


SIGNING, SHOWING = "signing", "client certificate"

_Use = tuple[tuple[str, SecretPlace], SecretVersion, Callable[[Mapping[str, bytes]], Any]]


def _uses(route: Route) -> Iterator[_Use]:
    if route.signing is not None:
        yield (SIGNING, SecretPlace(route.namespace, route.signing.name)), route.signing, signing_keys
    if route.client_certificate is not None:
        secret = route.client_certificate
        yield (SHOWING, SecretPlace(route.namespace, secret.name)), secret, _certificate


def _certificate(content: Mapping[str, bytes]) -> ClientCertificate:
    pair = client_certificate(content)
    try:
        return ClientCertificate(pair)
    except ValueError as error:
        raise MalformedSecret(str(error)) from None


# Signatures of deliveries by the rules of Standard Webhooks: who was given the secret can tell who sent it. What is
# signed is the body, with an id and the time of the attempt. The id is that of the event as this route sends it: the
# same for every attempt, so that a receiver that has seen it before knows it again, and another for another route.

ID_BYTES = 20


def message_id(route: Route, stage: Stage, record: Matched, payload: StagePayload | None) -> str:
    """What a receiver knows a delivery by that it may get more than once."""
    ident, source, _ = record.identity
    if stage is Stage.REPLY and payload is not None:
        ident, source = payload.reply.id, payload.reply.source
    parts = (route.uid, STAGE_NAMES[stage], source, ident)
    # Their lengths keep apart what only looks alike when put together.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]
    return "msg_" + base64.b32encode(digest).decode().lower()


def signature_lines(keys: SigningKeys, ident: str, timestamp: int, body: bytes) -> bytes:
    """The header lines, with a signature for each of the keys in force."""
    signed = b"%b.%d.%b" % (ident.encode(), timestamp, body)
    signatures = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    return b"webhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n" % (
        ident.encode(),
        timestamp,
        b" ".join(signatures),
    )
