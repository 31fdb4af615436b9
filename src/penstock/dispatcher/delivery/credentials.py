"""The credentials of a delivery: a token of the ServiceAccount of its Trigger or Subscription, where the address has an
audience; signatures and a client certificate, where the route names Secrets for them.

They are never written to a log or a topic.
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
    """No token is ever issued for the audience of the address."""


class DeliveryCredentials:
    """The header lines with token and signatures, and the certificate."""

    def __init__(
        self,
        tokens: Callable[[], AccountTokens],
        secrets: SecretCache,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`tokens` is called when the first token is needed."""
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
        # The keys are taken before the first await: they are cached here, as the route does not send without them.
        keys = None if route.signing is None else self._keys(route)
        lines = b""
        if route.account and endpoint.audience:
            lines = await self._token_line(route, endpoint.audience)
        if keys is not None:
            ident = message_id(route, stage, record, payload)
            lines += signature_lines(keys, ident, int(self._wall_clock()), body)
        return lines

    def certificate(self, route: Route) -> ClientCertificate:
        """The client certificate for subscribers that request one. Raises Withheld."""
        found = self._secrets.certificate(route)
        if found is None:
            raise Withheld("the Secret with the client certificate is not available", FailureCause.SECRET_UNAVAILABLE)
        return found

    def _keys(self, route: Route) -> SigningKeys:
        keys = self._secrets.signing(route)
        if keys is None:
            raise Withheld("the Secret with the signing keys is not available", FailureCause.SECRET_UNAVAILABLE)
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

    def token_refused(self, route: Route, audience: str | None) -> None:
        """The receiver refused the token: its ServiceAccount may have been recreated since."""
        from penstock.oidc.tokens import WantedToken

        if self._tokens is not None and audience and route.account:
            self._tokens.forget(WantedToken(route.namespace, route.account, audience))
