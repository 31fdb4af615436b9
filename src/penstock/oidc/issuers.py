"""The accepted issuers and their keys: fetched when they are first needed, and refreshed regularly.

A token with an unknown key id has the keys fetched again, since they may have been rotated; but at most every
`REFETCH_SECONDS`, since otherwise clients could cause any number of requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

import httpx2
import jwt
import structlog

from penstock.kube.errors import KubeError
from penstock.oidc.tokens import NoAccess, connect
from penstock.runtime.rate_limit import pause_after
from penstock.settings import Settings

DISCOVERY_PATH = "/.well-known/openid-configuration"
API_KEYS_PATH = "/openid/v1/jwks"
REFRESH_SECONDS = 600.0
REFETCH_SECONDS = 10.0
PAUSE_SECONDS = (1.0, 30.0)
MAX_RESPONSE_BYTES = 1024 * 1024
SYMMETRIC = "HS"
"""Prefix of algorithms with a shared secret. Such keys cannot be public, so they are ignored."""

log = structlog.get_logger()


class Fetched(NamedTuple):
    """The issuer URL and keys that an issuer publishes."""

    issuer: str
    keys: Mapping[str, jwt.PyJWK]
    """By `kid`."""


class NotFetched(Exception):
    """The keys of an issuer could not be fetched; they are fetched again later."""


class Missing(Enum):
    """Why there is no key."""

    NOT_YET = "the keys of the issuer are being fetched"
    NO_ISSUER = "its issuer is not accepted here"
    NO_KEY = "it is signed with a key that its issuer does not have"


Fetch = Callable[[], Awaitable[Fetched]]


class _Source:
    def __init__(self, name: str, fetch: Fetch) -> None:
        self.name, self.fetch = name, fetch
        self.known: Fetched | None = None
        self.fetched_at = -REFETCH_SECONDS


class Issuers:
    """Keys by issuer, the Kubernetes API's first. `run` fetches them."""

    def __init__(self, sources: Mapping[str, Fetch], clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = [_Source(name, fetch) for name, fetch in sources.items()]
        self._clock = clock
        self._wake = asyncio.Event()
        self._is_wanted = False
        self.generation = 0
        """Increases whenever keys change, so that results cached for earlier keys can be dropped."""

    def want(self) -> None:
        """Has the keys fetched, since they are going to be needed."""
        if not self._is_wanted:
            self._is_wanted = True
            self._wake.set()

    def key(self, issuer: str, kid: str | None) -> jwt.PyJWK | Missing:
        """The key with this id; without an id, the only key of the issuer."""
        source = next((one for one in self._sources if one.known and one.known.issuer == issuer), None)
        if source is None or source.known is None:
            return Missing.NO_ISSUER if all(one.known for one in self._sources) else self._not_yet()
        keys = source.known.keys
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        if kid is not None and kid in keys:
            return keys[kid]
        return self._not_yet() if self._clock() - source.fetched_at >= REFETCH_SECONDS else Missing.NO_KEY

    def is_foreign(self, issuer: str) -> bool:
        """Whether it is another issuer than the Kubernetes API, which comes first."""
        own = self._sources[0].known
        return own is None or own.issuer != issuer

    def _not_yet(self) -> Missing:
        self._is_wanted = True
        self._wake.set()
        return Missing.NOT_YET

    async def run(self) -> None:
        """Fetches keys until cancelled: when they are first wanted, then regularly and on demand."""
        failures = 0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), REFRESH_SECONDS if self._is_wanted else None)
            self._wake.clear()
            if await self.fetch_all():
                failures = 0
                continue
            failures += 1
            await asyncio.sleep(pause_after(failures, *PAUSE_SECONDS))
            self._wake.set()

    async def fetch_all(self) -> bool:
        """Fetches the keys of every issuer; whether all succeeded. After a failure, the known keys stay in use."""
        return all([await self._fetch(source) for source in self._sources])

    async def _fetch(self, source: _Source) -> bool:
        try:
            fetched = await source.fetch()
        except NotFetched as error:
            log.warning("the keys of a token issuer cannot be fetched", issuer=source.name, error=str(error))
            return False
        source.fetched_at = self._clock()
        if source.known is None or _text_of(fetched) != _text_of(source.known):
            log.info("fetched keys of a token issuer", issuer=fetched.issuer, keys=sorted(fetched.keys))
            source.known = fetched
            self.generation += 1
        return True


def _text_of(fetched: Fetched) -> tuple[str, dict[str, Any]]:
    return fetched.issuer, {kid: key._jwk_data for kid, key in fetched.keys.items()}  # PyJWK has no public access to it


def issuers_of(settings: Settings) -> Issuers:
    """The Kubernetes API, and those that the settings name."""
    sources: dict[str, Fetch] = {"the Kubernetes API": lambda: fetch_from_api(settings)}
    for url in settings.oidc_issuers:
        sources[url] = lambda url=url: fetch_from(url)  # type: ignore[misc]
    return Issuers(sources)


async def fetch_from_api(settings: Settings) -> Fetched:
    """The keys of the Kubernetes API, fetched with this role's credentials. They are read from their standard path,
    since the `jwks_uri` that it names may not be reachable from here."""
    try:
        api = connect(settings)
        try:
            discovery = await api.fetch(DISCOVERY_PATH)
            return Fetched(str(discovery.get("issuer") or ""), read_keys(await api.fetch(API_KEYS_PATH)))
        finally:
            await api.close()
    except (NoAccess, KubeError) as error:
        raise NotFetched(str(error)) from error


async def fetch_from(url: str) -> Fetched:
    """The keys of another issuer, whose discovery document must name this URL."""
    try:
        async with httpx2.AsyncClient(timeout=10.0, trust_env=False) as client:
            discovery = await _json(client, url.rstrip("/") + DISCOVERY_PATH)
            if discovery.get("issuer") != url:
                raise NotFetched(f"it calls itself {discovery.get('issuer')!r}")
            keys = str(discovery.get("jwks_uri") or "")
            if url.startswith("https:") and not keys.startswith("https:"):
                raise NotFetched(f"its keys are at an address that is not safe: {keys!r}")
            return Fetched(url, read_keys(await _json(client, keys)))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise NotFetched(str(error) or type(error).__name__) from error


def read_keys(key_set: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """The keys of a JSON Web Key Set that are usable for signatures; others are ignored."""
    found: dict[str, jwt.PyJWK] = {}
    listed = key_set.get("keys")
    for one in listed if isinstance(listed, Sequence) else ():
        try:
            key = jwt.PyJWK(one)
        except (jwt.PyJWTError, TypeError, AttributeError, ValueError):
            continue
        usable = key.algorithm_name not in (None, "none") and not str(key.algorithm_name).startswith(SYMMETRIC)
        if usable and one.get("use", "sig") == "sig":
            found[str(one.get("kid") or "")] = key
    return found


async def _json(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    response = await client.get(url)
    response.raise_for_status()
    if len(response.content) > MAX_RESPONSE_BYTES:
        raise NotFetched("its response is too long")
    document = response.json()
    if not isinstance(document, dict):
        raise NotFetched("its response is not a JSON object")
    return document
