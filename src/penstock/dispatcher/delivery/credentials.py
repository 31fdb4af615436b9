"""What a delivery shows of whom it comes from: a token of the ServiceAccount of its Trigger or Subscription.

Only where the address has an audience, and never in a log or a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.contract.routes import Route

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens

PATIENCE_SECONDS = 30.0
"""How long an attempt waits for a token: the Kubernetes API that gives them may be about to come back."""
PAUSE_SECONDS = 1.0


class NoCredentials(Exception):  # the attempt fails like one that finds nobody
    """There is no token to show."""


class Credentials:
    """The header with the token."""

    def __init__(self, tokens: Callable[[], AccountTokens]) -> None:
        """Told how tokens are had: nothing is set up for that before the first one is needed."""
        self._make = tokens
        self._tokens: AccountTokens | None = None

    async def lines(self, route: Route, audience: str, seconds: float) -> bytes:
        """The header line for a delivery of the route to this audience. Raises NoCredentials."""
        from penstock.oidc.tokens import NoToken, Wanted

        if self._tokens is None:
            self._tokens = self._make()
        wanted = Wanted(route.namespace, route.account, audience)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(seconds, PATIENCE_SECONDS)
        while True:
            try:
                return b"authorization: Bearer %b\r\n" % (await self._tokens.token(wanted)).encode("ascii")
            except NoToken as problem:
                if loop.time() + PAUSE_SECONDS >= deadline:
                    raise NoCredentials(str(problem)) from problem
            await asyncio.sleep(PAUSE_SECONDS)

    def refused(self, route: Route, audience: str | None) -> None:
        """The receiver did not take the token: it may be of a ServiceAccount that has been made anew since."""
        from penstock.oidc.tokens import Wanted

        if self._tokens is not None and audience and route.account:
            self._tokens.forget(Wanted(route.namespace, route.account, audience))
