"""Authentication: the user of a bearer token, which is a component's, a ServiceAccount's or a user's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.apiserver.access import account_tokens
from penstock.apiserver.access.account_tokens import AUDIENCES, Lookup
from penstock.apiserver.access.identity import USER_ISSUER, KnownTokens, User, user_of_user_token
from penstock.apiserver.access.signing_keys import Claims, Signer


class AuthenticatedToken(NamedTuple):
    """The user of a token, and those of the wanted audiences that the token names."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """Authenticates bearer tokens."""

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
        authenticated = self.authenticate(token) if token else None
        return authenticated.user if authenticated else None

    def authenticate(self, token: str, audiences: Iterable[str] = AUDIENCES) -> AuthenticatedToken | None:
        """The user of a token that is valid now and names one of these audiences."""
        wanted = tuple(audiences)
        known = self._tokens.user(token)
        claims = self.signer.read(token, self.clock()) if known is None else None
        if claims and not self._is_revoked(claims):
            if claims["iss"] == account_tokens.API_ISSUER:
                meant = tuple(one for one in wanted if one in (claims.get("aud") or ()))
                user = account_tokens.user_of_account_token(claims, self.lookup) if meant else None
                return AuthenticatedToken(user, meant) if user else None
            if claims["iss"] == USER_ISSUER:
                known = user_of_user_token(claims)
        meant = tuple(one for one in wanted if one in AUDIENCES)
        return AuthenticatedToken(known, meant) if known and meant else None


def _bearer(header: str | None) -> str:
    """The token in an `Authorization` header; empty if there is none."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
