"""The Secrets that routes need, kept while a route needs them.

A route begins to send when all of its Secrets are here, so that an attempt never waits for one and never goes without.
The control plane tells which version there is; another one is read anew, and until it is here the one before holds.
Where the control plane finds none of use, what was read is forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

import structlog

from penstock.contract.routes import Route, SecretVersion
from penstock.dispatcher.secrets.requests import NoSecret, SecretPlace
from penstock.resources.secrets.client_certificate import client_certificate
from penstock.resources.secrets.content import MalformedSecret
from penstock.resources.secrets.signing import SigningKeys, signing_keys
from penstock.retry import pause_after
from penstock.tls.clients import ClientCertificate

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


class KeptSecrets:
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
