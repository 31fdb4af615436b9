"""What a delivery shows of whom it comes from: a token of the ServiceAccount of its Trigger or Subscription, where the
address has an audience; signatures and a client certificate, where the route names Secrets for them.

Never in a log or a topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.contract.attempts import FailureCause
from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.http.outcome import Withheld
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.secrets import SecretCache, message_id, signature_lines
from penstock.resources.secrets import SigningKeys
from penstock.web.tls_clients import ClientCertificate

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens


class NeverSent(Exception):  # the attempt fails: waiting would not help
    """The address has an audience that no token is ever sent for."""


class DeliveryCredentials:
    """The header lines with token and signatures, and the certificate."""

    def __init__(
        self,
        tokens: Callable[[], AccountTokens],
        secrets: SecretCache,
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
    ) -> bytes:
        """The header lines for a delivery of the route to this address. Raises NeverSent or Withheld."""
        # The keys are taken before anything is waited for: the route has sent nothing without them so far.
        keys = None if route.signing is None else self._keys(route)
        lines = b""
        if route.account and endpoint.audience:
            lines = await self._token_line(route, endpoint.audience)
        if keys is not None:
            ident = message_id(route, stage, record, payload)
            lines += signature_lines(keys, ident, int(self._wall_clock()), body)
        return lines

    def certificate(self, route: Route) -> ClientCertificate:
        """What is shown to subscribers over TLS that ask for it. Raises Withheld."""
        found = self._secrets.certificate(route)
        if found is None:
            raise Withheld("the Secret with the client certificate is not here", FailureCause.SECRET_UNAVAILABLE)
        return found

    def _keys(self, route: Route) -> SigningKeys:
        keys = self._secrets.signing(route)
        if keys is None:
            raise Withheld("the Secret to sign it with is not here", FailureCause.SECRET_UNAVAILABLE)
        return keys

    async def _token_line(self, route: Route, audience: str) -> bytes:
        from penstock.oidc.tokens import NoToken, WantedToken, why_never

        wanted = WantedToken(route.namespace, route.account, audience)
        if never := why_never(wanted):
            raise NeverSent(never)
        if self._tokens is None:
            self._tokens = self._make()
        try:
            return b"authorization: Bearer %b\r\n" % (await self._tokens.token(wanted)).encode("ascii")
        except NoToken as problem:
            if problem.never:
                raise NeverSent(str(problem)) from problem
            raise Withheld(str(problem), FailureCause.TOKEN_UNAVAILABLE) from problem

    def refused(self, route: Route, audience: str | None) -> None:
        """The receiver did not take the token: it may be of a ServiceAccount that has been made anew since."""
        from penstock.oidc.tokens import WantedToken

        if self._tokens is not None and audience and route.account:
            self._tokens.forget(WantedToken(route.namespace, route.account, audience))
