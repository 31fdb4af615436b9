"""Tokens of ServiceAccounts: requested from the Kubernetes API and cached until shortly before they expire.

They are kept in memory only. The clients of the API here have the credentials of the data plane, which reads keys,
tokens and Secrets only.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import httpx2

from penstock.kube.client import TIMEOUT_SECONDS, AsyncClient, http_arguments
from penstock.kube.config import ClusterConfig, ConfigError, read_config
from penstock.kube.errors import KubeError, Unavailable, error_of_response
from penstock.kube.kinds import Key
from penstock.runtime.times import parse_rfc3339
from penstock.settings import Settings

KUBECONFIG = "kubeconfig-data-plane"
"""In the data folder, for the embedded API."""
TOKEN_SECONDS = 3600
FRESH_SHARE = 0.2
"""A token is renewed when less than this share of its lifetime is left."""
RETRY_SECONDS = 2.0
"""Pause after a failed request, before the same token is requested again."""
MAX_TOKENS = 10_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A valid name of a namespace or ServiceAccount, safe as a segment of a path."""
_API_AUDIENCE = re.compile(r"(https?://)?kubernetes(\.default(\.svc(\.[a-z0-9.-]+)?)?)?\.?(:\d+)?/?", re.IGNORECASE)
"""The default audiences of API servers, and of the embedded one."""


class NoAccess(Exception):
    """The address or credentials of the API cannot be read; the text says why."""


def connect(settings: Settings) -> AsyncClient:
    """A client with this role's credentials. Raises NoAccess."""
    try:
        return AsyncClient(_config(settings))
    except ConfigError as error:
        raise NoAccess(f"there is no access to the Kubernetes API: {error}") from error


def api_client(settings: Settings) -> httpx2.AsyncClient:
    """The same as a plain HTTP client. Raises NoAccess."""
    try:
        return httpx2.AsyncClient(**http_arguments(_config(settings), TIMEOUT_SECONDS))
    except ConfigError as error:
        raise NoAccess(f"there is no access to the Kubernetes API: {error}") from error


def message_of(response: httpx2.Response) -> str:
    """The error message in a response of the API."""
    return str(error_of_response(response))


def _config(settings: Settings) -> ClusterConfig:
    return read_config(settings.kubeconfig or settings.data_dir / KUBECONFIG)


class WantedToken(NamedTuple):
    """The ServiceAccount and the audience of a token."""

    namespace: str
    account: str
    audience: str


class Issued(NamedTuple):
    """A token and its expiry."""

    token: str
    expires: float


def remaining(token: str, audience: str, now: float) -> float:
    """How many seconds an untrusted token is valid; 0 if it is not for the audience or cannot be parsed. Its signature
    is not checked: that is up to its receiver."""
    import jwt

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return 0.0
    audiences, expires = claims.get("aud"), claims.get("exp")
    listed = audiences if isinstance(audiences, list) else [audiences]
    return max(0.0, float(expires) - now) if audience in listed and isinstance(expires, int | float) else 0.0


class NoToken(Exception):
    """No token can be issued; the text is the reason of the failed attempt."""

    def __init__(self, reason: str, *, never: bool = False) -> None:
        super().__init__(reason)
        self.never = never
        """Whether retrying is useless."""


def why_never(wanted: WantedToken) -> str:
    """Why such a token must not be requested, whatever a route or source says; empty if it may be."""
    if not _NAME.fullmatch(wanted.namespace) or not _NAME.fullmatch(wanted.account):
        return f"{wanted.namespace}/{wanted.account} cannot be the name of a ServiceAccount"
    if _API_AUDIENCE.fullmatch(wanted.audience):
        return _for_the_api(wanted.audience)
    return ""


def _for_the_api(audience: str) -> str:
    return f'no token is sent for the audience "{audience}": it would be one for the Kubernetes API itself'


Ask = Callable[[WantedToken], Awaitable[Issued]]
Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]
"""Starts a task that belongs to a component, which ends when the task fails."""


class _CachedToken:
    __slots__ = ("failure", "issued", "never", "renew_at", "renewal")

    def __init__(self) -> None:
        self.issued: Issued | None = None
        self.renew_at = 0.0
        self.failure, self.never = "", False
        self.renewal: asyncio.Task[Any] | None = None


class AccountTokens:
    """Tokens by account and audience. Concurrent callers share one request."""

    def __init__(self, ask: Ask, start: Start, clock: Callable[[], float] = time.time) -> None:
        self._ask, self._start, self._clock = ask, start, clock
        self._cached: dict[WantedToken, _CachedToken] = {}

    async def token(self, wanted: WantedToken) -> str:
        """A token that is valid for a while. Raises NoToken."""
        cached = self._cached.get(wanted)
        if cached is None:
            if len(self._cached) >= MAX_TOKENS:
                self._cached.pop(next(iter(self._cached)))
            cached = self._cached[wanted] = _CachedToken()
        now = self._clock()
        if now >= cached.renew_at:
            if cached.renewal is None or cached.renewal.done():
                cached.renewal = self._start(self._renew(wanted, cached), "token of a ServiceAccount")
            if cached.issued is None or now >= cached.issued.expires:
                # Shielded: the request is shared, and one cancelled caller must not end it for others.
                await asyncio.shield(cached.renewal)
        if cached.issued is None or self._clock() >= cached.issued.expires:
            raise NoToken(cached.failure, never=cached.never)
        return cached.issued.token

    def forget(self, wanted: WantedToken) -> None:
        """Drops a token that was rejected, so that a new one is requested."""
        self._cached.pop(wanted, None)

    async def _renew(self, wanted: WantedToken, cached: _CachedToken) -> None:
        try:
            issued = await self._ask(wanted)
        except NoToken as error:
            cached.failure, cached.never, cached.renew_at = str(error), error.never, self._clock() + RETRY_SECONDS
            return
        now = self._clock()
        cached.issued, cached.renew_at = issued, now + (issued.expires - now) * (1 - FRESH_SHARE)


class TokenRequests:
    """Requests tokens from the Kubernetes API."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: AsyncClient | None = None
        self._issuer: str | None = None
        """The API's issuer URL, which is also the default audience of its tokens. Empty if it may not be read."""

    async def __call__(self, wanted: WantedToken) -> Issued:
        """A new token. Raises NoToken."""
        if never := why_never(wanted):
            raise NoToken(never, never=True)
        whom = f"ServiceAccount {wanted.namespace}/{wanted.account}"
        spec = {"audiences": [wanted.audience], "expirationSeconds": TOKEN_SECONDS}
        try:
            if self._client is None:
                self._client = connect(self._settings)
            if self._issuer is None:
                self._issuer = await _issuer_of(self._client)
            if self._issuer and wanted.audience.rstrip("/") == self._issuer.rstrip("/"):
                raise NoToken(_for_the_api(wanted.audience), never=True)
            status = await self._client.token(Key(wanted.namespace, wanted.account), spec)
            return Issued(str(status["token"]), parse_rfc3339(status["expirationTimestamp"]).timestamp())
        except (NoAccess, KubeError) as error:
            raise NoToken(f"there is no token for the {whom}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise NoToken(f"there is no token for the {whom}: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.close()


async def _issuer_of(api: AsyncClient) -> str | None:
    """The API's issuer URL; empty if the role may not read it, None if the API fails temporarily."""
    try:
        return str((await api.fetch("/.well-known/openid-configuration"))["issuer"])
    except Unavailable:
        raise
    except KubeError as error:
        return None if error.is_temporary else ""
