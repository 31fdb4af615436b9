"""The issuers whose tokens are taken, and their keys: fetched when they are first needed, and again in time.

A token that names a key which nobody knows has the keys fetched again, since they may just have been replaced; but not
more often than every `REFETCH_SECONDS`, since whoever sends such tokens could have us ask all the time.
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
LONGEST_ANSWER = 1024 * 1024
SYMMETRIC = "HS"
"""How the names of algorithms begin whose keys both sides share. Such a key cannot be public, so none is taken."""

log = structlog.get_logger()


class Fetched(NamedTuple):
    """What an issuer tells of itself."""

    issuer: str
    keys: Mapping[str, jwt.PyJWK]
    """By `kid`."""


class NotFetched(Exception):  # tried again, and told where it matters
    """The keys of an issuer cannot be had now."""


class Missing(Enum):
    """Why there is no key."""

    NOT_YET = "the keys of the issuer are being fetched"
    NO_ISSUER = "its issuer is not one of those that are taken here"
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
        self._asked = asyncio.Event()
        self._is_wanted = False
        self.generation = 0
        """Rises whenever keys change, so that what was concluded from others can be forgotten."""

    def want(self) -> None:
        """Keys are going to be asked for."""
        if not self._is_wanted:
            self._is_wanted = True
            self._asked.set()

    def key(self, issuer: str, kid: str | None) -> jwt.PyJWK | Missing:
        """The key of this name; None names the only one that the issuer has."""
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
        self._asked.set()
        return Missing.NOT_YET

    async def run(self) -> None:
        """Fetches keys until cancelled: as soon as somebody wants any, then now and then."""
        failures = 0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), REFRESH_SECONDS if self._is_wanted else None)
            self._asked.clear()
            if await self.fetch_all():
                failures = 0
                continue
            failures += 1
            await asyncio.sleep(pause_after(failures, *PAUSE_SECONDS))
            self._asked.set()

    async def fetch_all(self) -> bool:
        """Asks every issuer once; whether all of them answered. Of one that does not, what is known stays in force."""
        return all([await self._fetch(source) for source in self._sources])

    async def _fetch(self, source: _Source) -> bool:
        try:
            fetched = await source.fetch()
        except NotFetched as error:
            log.warning("the keys of an issuer of tokens cannot be fetched", issuer=source.name, error=str(error))
            return False
        source.fetched_at = self._clock()
        if source.known is None or _text_of(fetched) != _text_of(source.known):
            log.info("keys of an issuer of tokens", issuer=fetched.issuer, keys=sorted(fetched.keys))
            source.known = fetched
            self.generation += 1
        return True


def _text_of(fetched: Fetched) -> tuple[str, dict[str, Any]]:
    return fetched.issuer, {kid: key._jwk_data for kid, key in fetched.keys.items()}  # no other way


def issuers_of(settings: Settings) -> Issuers:
    """The Kubernetes API, and those that the settings name."""
    sources: dict[str, Fetch] = {"the Kubernetes API": lambda: fetch_from_api(settings)}
    for url in settings.oidc_issuers:
        sources[url] = lambda url=url: fetch_from(url)  # type: ignore[misc]
    return Issuers(sources)


async def fetch_from_api(settings: Settings) -> Fetched:
    """The keys of the Kubernetes API, asked with this role's credentials. It may name an address for its keys that only
    others reach, and so is asked for them at the place where every API has them."""
    try:
        api = connect(settings)
        try:
            told = await api.fetch(DISCOVERY_PATH)
            return Fetched(str(told.get("issuer") or ""), read_keys(await api.fetch(API_KEYS_PATH)))
        finally:
            await api.close()
    except (NoAccess, KubeError) as error:
        raise NotFetched(str(error)) from error


async def fetch_from(url: str) -> Fetched:
    """The keys of another issuer, which must be who it was asked as."""
    try:
        async with httpx2.AsyncClient(timeout=10.0, trust_env=False) as client:
            told = await _json(client, url.rstrip("/") + DISCOVERY_PATH)
            if told.get("issuer") != url:
                raise NotFetched(f"it calls itself {told.get('issuer')!r}")
            keys = str(told.get("jwks_uri") or "")
            if url.startswith("https:") and not keys.startswith("https:"):
                raise NotFetched(f"it has its keys at an address that is not safe: {keys!r}")
            return Fetched(url, read_keys(await _json(client, keys)))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise NotFetched(str(error) or type(error).__name__) from error


def read_keys(told: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """The keys of a JSON Web Key Set that signatures can be checked with; others are passed over."""
    found: dict[str, jwt.PyJWK] = {}
    listed = told.get("keys")
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
    answer = await client.get(url)
    answer.raise_for_status()
    if len(answer.content) > LONGEST_ANSWER:
        raise NotFetched("its answer is too long")
    told = answer.json()
    if not isinstance(told, dict):
        raise NotFetched("its answer is no JSON object")
    return told
