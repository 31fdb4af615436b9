"""Who is signed in, and the links that sign a user in once. Both are in memory, and end with the process.

A session keeps a token of the Kubernetes API, under a number that the browser has in a cookie which scripts cannot read
and other sites cannot send. Everything is asked of the API with that token, so that the API's own rules decide. What no
rule of the API guards is shown by what the API last said of the token's user, which is asked again twice a minute: a
token that is revoked, has ended or has lost its rights shows no more here than elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jwt
from starlette.requests import Request
from starlette.responses import Response

from penstock.operations.cluster_api import UnknownToken
from penstock.runtime.errors import UserError

SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 500
"""Sessions that are remembered; the oldest go first."""
CHECK_SECONDS = 30.0
"""Between two questions to the API about the user of a session that is in use."""
RETRY_SECONDS = 5.0
"""The same where the API did not answer."""
UNCHECKED_SECONDS = 300.0
"""How long the last answer of the API counts while it does not answer: who repairs it wants to read its log."""
LONGEST_LINK_SECONDS = 3600
MOST_LINKS = 100
"""Links that wait to be followed; the oldest go first."""


class TokenOwner(NamedTuple):
    """What the API says of a token."""

    user: str
    is_operator: bool
    """Whether they may see what no rule of the API guards: events, logs, the stack."""


Check = Callable[[str], TokenOwner]
"""Asks the API whose token it is. Blocks. Raises UserError; UnknownToken for a token that is not valid."""


@dataclass(eq=False)
class Session:
    """A browser that has signed in."""

    number: str
    token: str
    owner: TokenOwner
    ends: float
    checked: float
    """When the API last said who the owner is."""
    due: float
    """When it is asked again."""
    problem: UserError | None = None
    """Why it has not answered since."""
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """Remembers who has shown a token. Used from one event loop."""

    def __init__(self, port: int, check: Check, clock: Callable[[], float] = time.monotonic) -> None:
        self.cookie = f"penstock_console_{port}"
        """Cookies are not bound to a port; two consoles of one machine must be kept apart."""
        self._check, self._clock = check, clock
        self._sessions: dict[str, Session] = {}

    async def of(self, request: Request) -> Session | None:
        """The session that a request belongs to. Raises UserError where the API has not answered for too long."""
        session = self._sessions.get(request.cookies.get(self.cookie, ""))
        return session if session is not None and await self.holds(session) else None

    async def holds(self, session: Session) -> bool:
        """Whether the session is still valid; asks the API again if the last check is old. Raises as `of`."""
        if session.ends <= self._clock():
            self._forget(session)
        elif session.due <= self._clock():
            async with session.checking:
                if session.due <= self._clock():
                    await self._ask(session)
        if self._sessions.get(session.number) is not session:
            return False
        if session.problem is not None and self._clock() - session.checked > UNCHECKED_SECONDS:
            raise session.problem
        return True

    async def _ask(self, session: Session) -> None:
        try:
            session.owner = await asyncio.to_thread(self._check, session.token)
        except UnknownToken:
            self._forget(session)
        except UserError as problem:
            session.problem, session.due = problem, self._clock() + RETRY_SECONDS
        else:
            session.problem, session.checked = None, self._clock()
            session.due = session.checked + CHECK_SECONDS

    def begin(self, request: Request, response: Response, token: str, owner: TokenOwner) -> None:
        """Begins a session with a token that was just verified; it replaces the browser's last session."""
        self._sessions.pop(request.cookies.get(self.cookie, ""), None)
        now, number = self._clock(), secrets.token_urlsafe(32)
        seconds = min(SESSION_SECONDS, seconds_left(token, time.time()))
        self._sessions[number] = Session(number, token, owner, now + seconds, now, now + CHECK_SECONDS)
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        response.set_cookie(
            self.cookie,
            number,
            max_age=int(seconds),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def end(self, request: Request, response: Response) -> None:
        """Ends the session of a browser."""
        self._sessions.pop(request.cookies.get(self.cookie, ""), None)
        response.delete_cookie(self.cookie, httponly=True, samesite="strict")

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.number, None)


def seconds_left(token: str, now: float) -> float:
    """How long a token that the API has accepted is valid yet, as far as it says so itself."""
    try:
        return max(0.0, float(jwt.decode(token, options={"verify_signature": False})["exp"]) - now)
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
        return float("inf")


@dataclass(frozen=True)
class LoginLink:
    """A link that was made and not followed yet."""

    token: str
    owner: TokenOwner
    account: int | None
    """uid of the process that asked for it, if that is on this machine."""
    ends: float

    def is_for(self, account: int | None) -> bool:
        """Whether a process of this account may follow it. A link is on the command line of the browser that opens it,
        where others of the machine can read it. What root asked for is for whom root gives it to."""
        return self.account in (None, 0, account) or account in (None, 0)


class LoginLinks:
    """Links that sign a user in, each once. Of the code in a link only a hash is kept. Used from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[bytes, LoginLink] = {}

    def make(self, token: str, owner: TokenOwner, account: int | None, seconds: int) -> str:
        """The code of a new link, which is valid for so long."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = LoginLink(token, owner, account, self._clock() + seconds)
        self._links = {digest: link for digest, link in self._links.items() if link.ends > self._clock()}
        while len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]
        return code

    def find(self, code: str) -> LoginLink | None:
        """The link with this code; None where it was followed already, is too old or never was."""
        link = self._links.get(_digest(code))
        return link if link is not None and link.ends > self._clock() else None

    def take(self, code: str) -> LoginLink | None:
        """The same, for the one time that it is followed."""
        link = self.find(code)
        self._links.pop(_digest(code), None)
        return link


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
