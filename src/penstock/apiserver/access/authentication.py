"""Whose token is this? One of penstock's own users, a ServiceAccount, or a person with a signed token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.apiserver.access import account_tokens
from penstock.apiserver.access.account_tokens import AUDIENCES, Lookup
from penstock.apiserver.access.identity import ISSUER, KnownTokens, User, user_of
from penstock.apiserver.access.signing_keys import Claims, Signer


class Recognised(NamedTuple):
    """The user of a token, and which of the wanted audiences it is for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """Knows every valid token."""

    def __init__(
        self,
        tokens: KnownTokens,
        signer: Signer,
        lookup: Lookup,
        clock: Callable[[], float] = time.time,
        is_revoked: Callable[[Claims], bool] = lambda _: False,
    ) -> None:
        self._tokens, self.signer, self.lookup, self.clock = tokens, signer, lookup, clock
        self._is_revoked = is_revoked

    def user(self, header: str | None) -> User | None:
        """The user of an `Authorization` header, if it carries a token that is valid for the API."""
        token = _bearer(header)
        recognised = self.recognise(token) if token else None
        return recognised.user if recognised else None

    def recognise(self, token: str, audiences: Iterable[str] = AUDIENCES) -> Recognised | None:
        """Who a token stands for, if it is for one of these audiences."""
        wanted = tuple(audiences)
        known = self._tokens.user(token)
        claims = self.signer.read(token, self.clock()) if known is None else None
        if claims and not self._is_revoked(claims):
            if claims["iss"] == account_tokens.ISSUER:
                meant = tuple(one for one in wanted if one in (claims.get("aud") or ()))
                user = account_tokens.user_of(claims, self.lookup) if meant else None
                return Recognised(user, meant) if user else None
            if claims["iss"] == ISSUER:
                known = user_of(claims)
        meant = tuple(one for one in wanted if one in AUDIENCES)
        return Recognised(known, meant) if known and meant else None


def _bearer(header: str | None) -> str:
    """The token in an `Authorization` header; nothing where it carries none."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
