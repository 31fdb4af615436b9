"""Verification of tokens: signature, issuer, audience and times. Verified tokens are cached.

The algorithm is that of the issuer's key, never the one in the token's header. So neither `none` nor a public key used
as a shared secret is accepted.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jwt
from jwt.types import Options

from penstock.oidc.issuers import Issuers, Missing

SKEW_SECONDS = 30.0
"""Tolerated difference between our clock and those of issuers and senders."""
MAX_CACHED = 4096
LONGEST_TOKEN = 16 * 1024
SHOWN = 200

_SIGNATURE_ONLY: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""The rest is checked on every use of the token, not only once."""


class TokenRefused(NamedTuple):
    """Why a token is not accepted."""

    reason: str
    is_passing: bool = False
    """Whether it may be accepted soon, when the issuer's keys have been fetched."""


class _Known(NamedTuple):
    subject: str
    audiences: tuple[str, ...]
    not_before: float
    expires: float


class Verifier:
    """Verifies tokens."""

    def __init__(self, issuers: Issuers, clock: Callable[[], float] = time.time) -> None:
        self._issuers, self._clock = issuers, clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._generation = issuers.generation

    def subject(self, token: str, audience: str) -> str | TokenRefused:
        """The subject of the token, if it is valid now and for this audience."""
        if self._generation != self._issuers.generation:
            self._known.clear()
            self._generation = self._issuers.generation
        known = self._known.get(token)
        if known is None:
            verified = self._verify(token)
            if isinstance(verified, TokenRefused):
                return verified
            known = self._cache(token, verified)
        return self._check_use(known, audience)

    def _cache(self, token: str, known: _Known) -> _Known:
        self._known[token] = known
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return known

    def _check_use(self, known: _Known, audience: str) -> str | TokenRefused:
        now = self._clock()
        if now >= known.expires + SKEW_SECONDS:
            return TokenRefused("the token has expired")
        if now < known.not_before - SKEW_SECONDS:
            return TokenRefused("the token is not valid yet")
        if audience not in known.audiences:
            meant = ", ".join(_shown(one) for one in known.audiences[:5]) or "no audience"
            return TokenRefused(f'the token is for {meant}, not for the audience "{audience}"')
        return known.subject

    def _verify(self, token: str) -> _Known | TokenRefused:
        if len(token) > LONGEST_TOKEN:
            return TokenRefused("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            unverified = jwt.decode(token, options={"verify_signature": False})
        except (jwt.InvalidTokenError, ValueError):
            return TokenRefused("this is not a JSON Web Token")
        issuer = unverified.get("iss")
        if not isinstance(issuer, str):
            return TokenRefused("the token names no issuer")
        return self._verify_signature(token, issuer, header)

    def _verify_signature(self, token: str, issuer: str, header: Mapping[str, Any]) -> _Known | TokenRefused:
        key = self._issuers.key(issuer, header.get("kid"))
        if isinstance(key, Missing):
            return TokenRefused(f"the token cannot be verified: {key.value}", is_passing=key is Missing.NOT_YET)
        if header.get("alg") != key.algorithm_name:
            return TokenRefused(
                f"the token is signed by {_shown(header.get('alg'))}, which is not how its issuer signs"
            )
        try:
            claims = jwt.decode(token, key, algorithms=[str(key.algorithm_name)], options=_SIGNATURE_ONLY)
        except jwt.InvalidTokenError:
            return TokenRefused("the signature of the token is not that of its issuer")
        return _known(claims, self._issuers.is_foreign(issuer))


def _known(claims: dict[str, Any], foreign: bool) -> _Known | TokenRefused:
    subject, audience, expires = claims.get("sub"), claims.get("aud"), claims.get("exp")
    not_before = claims.get("nbf", 0)
    if not isinstance(subject, str) or not subject:
        return TokenRefused("the token names no subject")
    if not isinstance(expires, int | float) or not isinstance(not_before, int | float) or expires is True:
        return TokenRefused("the token does not say until when it is valid")
    if foreign and subject.startswith("system:"):
        # Otherwise another issuer could issue tokens for every ServiceAccount of the cluster.
        return TokenRefused(f"its issuer cannot speak for {_shown(subject)}: such names are Kubernetes' own")
    listed = audience if isinstance(audience, list) else [audience]
    return _Known(subject, tuple(one for one in listed if isinstance(one, str)), float(not_before), float(expires))


def _shown(value: object) -> str:
    return ascii(str(value)[:SHOWN])
