"""Tokens of ServiceAccounts, asked for from the Kubernetes API and kept until shortly before they end.

They are in memory and nowhere else.
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

# A connection to the Kubernetes API for the data plane, which asks it for keys, tokens and Secrets, no more.

KUBECONFIG = "kubeconfig-data-plane"
"""In the data folder, for the embedded API."""


class NoAccess(Exception):  # told as the reason of what then cannot be done
    """Where the API is, or who asks it, cannot be found out."""


def connect(settings: Settings) -> AsyncClient:
    """A connection with this role's credentials. Raises NoAccess."""
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


def message_of(answer: httpx2.Response) -> str:
    """Why the API refused what was asked."""
    return str(error_of_response(answer))


def _config(settings: Settings) -> ClusterConfig:
    return read_config(settings.kubeconfig or settings.data_dir / KUBECONFIG)


ASKED_SECONDS = 3600
FRESH_SHARE = 0.2
"""A token is replaced when less than this of its life is left."""
AGAIN_SECONDS = 2.0
"""After an answer that was no token, nothing is asked for the same one for so long."""
MOST = 10_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""What can be a part of a path of the API and names one object."""
_API_AUDIENCE = re.compile(r"(https?://)?kubernetes(\.default(\.svc(\.[a-z0-9.-]+)?)?)?\.?(:\d+)?/?", re.IGNORECASE)
"""What the API servers of clusters, and the embedded one, take for themselves unless configured otherwise."""


class WantedToken(NamedTuple):
    """Which token: whose, and for whom."""

    namespace: str
    account: str
    audience: str


class Issued(NamedTuple):
    """A token, and until when it is good."""

    token: str
    expires: float


def remaining(token: str, audience: str, now: float) -> float:
    """For how many seconds a token is good that somebody else may have written; 0 for one that is not for the audience
    or cannot be read. Its signature is for its receiver to look at."""
    import jwt

    try:
        said = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return 0.0
    audiences, expires = said.get("aud"), said.get("exp")
    listed = audiences if isinstance(audiences, list) else [audiences]
    return max(0.0, float(expires) - now) if audience in listed and isinstance(expires, int | float) else 0.0


class NoToken(Exception):  # the reason of an attempt that could not be made
    """There is no token."""

    def __init__(self, reason: str, *, never: bool = False) -> None:
        super().__init__(reason)
        self.never = never
        """Whether there will be none, however long one waits."""


def why_never(wanted: WantedToken) -> str:
    """Why such a token is never asked for, whatever a route or source says; empty where it may be."""
    if not _NAME.fullmatch(wanted.namespace) or not _NAME.fullmatch(wanted.account):
        return f"{wanted.namespace}/{wanted.account} cannot be the name of a ServiceAccount"
    if _API_AUDIENCE.fullmatch(wanted.audience):
        return _for_the_api(wanted.audience)
    return ""


def _for_the_api(audience: str) -> str:
    return f'no token is sent for the audience "{audience}": it would be one for the Kubernetes API itself'


Ask = Callable[[WantedToken], Awaitable[Issued]]
Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]
"""Begins work that belongs to somebody who ends when it fails."""


class _Held:
    __slots__ = ("asking", "failure", "issued", "never", "renew_at")

    def __init__(self) -> None:
        self.issued: Issued | None = None
        self.renew_at = 0.0
        self.failure, self.never = "", False
        self.asking: asyncio.Task[Any] | None = None


class AccountTokens:
    """Tokens by account and audience. Many who want the same one ask once."""

    def __init__(self, ask: Ask, start: Start, clock: Callable[[], float] = time.time) -> None:
        self._ask, self._start, self._clock = ask, start, clock
        self._held: dict[WantedToken, _Held] = {}

    async def token(self, wanted: WantedToken) -> str:
        """A token that is good for a while. Raises NoToken."""
        held = self._held.get(wanted)
        if held is None:
            if len(self._held) >= MOST:
                self._held.pop(next(iter(self._held)))
            held = self._held[wanted] = _Held()
        now = self._clock()
        if now >= held.renew_at:
            if held.asking is None or held.asking.done():
                held.asking = self._start(self._renew(wanted, held), "token of a ServiceAccount")
            if held.issued is None or now >= held.issued.expires:
                await asyncio.shield(held.asking)
        if held.issued is None or self._clock() >= held.issued.expires:
            raise NoToken(held.failure, never=held.never)
        return held.issued.token

    def forget(self, wanted: WantedToken) -> None:
        """The token was not taken: the next one is asked for anew."""
        self._held.pop(wanted, None)

    async def _renew(self, wanted: WantedToken, held: _Held) -> None:
        try:
            issued = await self._ask(wanted)
        except NoToken as error:
            held.failure, held.never, held.renew_at = str(error), error.never, self._clock() + AGAIN_SECONDS
            return
        now = self._clock()
        held.issued, held.renew_at = issued, now + (issued.expires - now) * (1 - FRESH_SHARE)


class TokenRequests:
    """Asks the Kubernetes API."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: AsyncClient | None = None
        self._issuer: str | None = None
        """What the API calls itself, which is what its own tokens are for unless it is told otherwise."""

    async def __call__(self, wanted: WantedToken) -> Issued:
        """A new token. Raises NoToken."""
        if never := why_never(wanted):
            raise NoToken(never, never=True)
        whom = f"ServiceAccount {wanted.namespace}/{wanted.account}"
        spec = {"audiences": [wanted.audience], "expirationSeconds": ASKED_SECONDS}
        try:
            if self._client is None:
                self._client = connect(self._settings)
            if self._issuer is None:
                self._issuer = await _issuer_of(self._client)
            if self._issuer and wanted.audience.rstrip("/") == self._issuer.rstrip("/"):
                raise NoToken(_for_the_api(wanted.audience), never=True)
            status = await self._client.token(Key(wanted.namespace, wanted.account), spec)
            return Issued(str(status["token"]), parse_rfc3339(status["expirationTimestamp"]).timestamp())
        except NoAccess as error:
            raise NoToken(f"there is no token for the {whom}: {error}") from error
        except KubeError as error:
            raise NoToken(f"there is no token for the {whom}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise NoToken(f"there is no token for the {whom}: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.close()


async def _issuer_of(api: AsyncClient) -> str | None:
    """What the API calls itself; empty where the role may not read it, None where the API cannot say it now."""
    try:
        return str((await api.fetch("/.well-known/openid-configuration"))["issuer"])
    except Unavailable:
        raise
    except KubeError as error:
        return None if error.is_temporary else ""
