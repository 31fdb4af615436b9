"""What a delivery shows of whom it comes from: a token of the ServiceAccount of its Trigger or Subscription, where the
address has an audience; signatures and a client certificate, where the route names Secrets for them.

Never in a log or a topic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.matched.record import Matched
from penstock.dispatcher.secrets.kept import KeptSecrets
from penstock.dispatcher.secrets.signature import message_id, signature_lines
from penstock.resources.secrets.signing import SigningKeys
from penstock.tls.clients import ClientCertificate

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens

PATIENCE_SECONDS = 30.0
"""How long an attempt waits for a token: the Kubernetes API that gives them may be about to come back."""
PAUSE_SECONDS = 1.0


class NoCredentials(Exception):  # the attempt fails like one that finds nobody
    """There is no token or certificate to show, or nothing to sign with."""


class DeliveryCredentials:
    """The header lines with token and signatures, and the certificate."""

    def __init__(
        self,
        tokens: Callable[[], AccountTokens],
        secrets: KeptSecrets,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Told how tokens are had: nothing is set up for that before the first one is needed."""
        self._make, self._secrets, self._wall_clock = tokens, secrets, wall_clock
        self._tokens: AccountTokens | None = None

    async def lines(
        self,
        route: Route,
        endpoint: Endpoint,
        stage: Stage,
        record: Matched,
        *,
        payload: StagePayload | None,
        body: bytes,
        seconds: float,
    ) -> bytes:
        """The header lines for a delivery of the route to this address. Raises NoCredentials."""
        # The keys are taken before anything is waited for: the route has sent nothing without them so far.
        keys = None if route.signing is None else self._keys(route)
        lines = b""
        if route.account and endpoint.audience:
            lines = await self._token_line(route, endpoint.audience, seconds)
        if keys is not None:
            ident = message_id(route, stage, record, payload)
            lines += signature_lines(keys, ident, int(self._wall_clock()), body)
        return lines

    def certificate(self, route: Route) -> ClientCertificate:
        """What is shown to subscribers over TLS that ask for it. Raises NoCredentials."""
        found = self._secrets.certificate(route)
        if found is None:
            raise NoCredentials("the Secret with the client certificate is not here")
        return found

    def _keys(self, route: Route) -> SigningKeys:
        keys = self._secrets.signing(route)
        if keys is None:
            raise NoCredentials("the Secret to sign it with is not here")
        return keys

    async def _token_line(self, route: Route, audience: str, seconds: float) -> bytes:
        from penstock.oidc.tokens import NoToken, WantedToken

        if self._tokens is None:
            self._tokens = self._make()
        wanted = WantedToken(route.namespace, route.account, audience)
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
        from penstock.oidc.tokens import WantedToken

        if self._tokens is not None and audience and route.account:
            self._tokens.forget(WantedToken(route.namespace, route.account, audience))
