"""Who looks at the console: nobody in particular on this machine alone, otherwise whoever showed a token.

A token is kept in memory, under a number that the browser has in a cookie which scripts cannot read and other sites
cannot send. Everything is then asked of the API with that token, so that the API's own rules decide.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

HOURS = 12
MOST = 500
"""Sessions that are remembered; the oldest go first."""


@dataclass(frozen=True)
class Session:
    """Somebody who looks."""

    user: str
    """Name that the API knows; empty where nobody was asked."""
    token: str | None
    """What the API is asked with; None: the credentials of the console itself."""
    is_operator: bool
    """Whether events, logs and the stack may be seen, which no rule of the API stands before."""
    ends: float = float("inf")


LOCAL = Session("", None, True)
"""Whoever is on this machine."""


class Sessions:
    """Remembers who has shown a token."""

    def __init__(self, port: int, clock: Callable[[], float] = time.time) -> None:
        self.cookie = f"penstock_console_{port}"
        """Cookies do not tell ports apart; two consoles of one machine must."""
        self._clock = clock
        self._known: dict[str, Session] = {}
        self._lock = threading.Lock()

    def of(self, request: Request) -> Session | None:
        """Who sent the request; None where that is not known."""
        number = request.cookies.get(self.cookie, "")
        with self._lock:
            session = self._known.get(number)
            if session is not None and session.ends <= self._clock():
                del self._known[number]
                session = None
        return session

    def begin(self, request: Request, response: Response, user: str, token: str, *, is_operator: bool) -> None:
        """Remembers somebody, and has the browser say so from now on."""
        number = secrets.token_urlsafe(32)
        with self._lock:
            self._known[number] = Session(user, token, is_operator, self._clock() + HOURS * 3600)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]
        response.set_cookie(
            self.cookie,
            number,
            max_age=HOURS * 3600,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def end(self, request: Request, response: Response) -> None:
        """Forgets somebody."""
        with self._lock:
            self._known.pop(request.cookies.get(self.cookie, ""), None)
        response.delete_cookie(self.cookie, httponly=True, samesite="strict")
