"""Tokens that the server signs: JSON Web Tokens, made and read with keys that never leave the data folder."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.types import Options

ALGORITHM = "ES256"
REMEMBERED = 1024
"""Right tokens whose signature is not checked again."""

_TIMELESS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "require": ["exp", "iss", "sub"],
}
"""The signature is checked once, times and audiences whenever the token comes."""

Claims = dict[str, Any]


class Signer:
    """Signs tokens with one key, and knows the signatures of others beside it: older ones, and the one to come."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, *others: ec.EllipticCurvePrivateKey) -> None:
        self.longest_seconds = float("inf")
        """How long a token may live: what it is signed with must still be known when it ends."""
        self.use(key, *others)

    def use(self, key: ec.EllipticCurvePrivateKey, *others: ec.EllipticCurvePrivateKey) -> None:
        """Signs with this key from now on, and takes what is signed with any of them."""
        self._private, self._kid = key, key_id(key.public_key())
        self._public = {key_id(one.public_key()): one.public_key() for one in (key, *others)}
        # To check a signature takes many times longer than anything else about a request. What is wrong is not kept, so
        # that wrong tokens, however many, leave the right ones in memory.
        self._read = lru_cache(REMEMBERED)(self._verify)

    def sign(self, claims: Claims) -> str:
        """The token of these claims."""
        return jwt.encode(claims, self._private, algorithm=ALGORITHM, headers={"kid": self._kid})

    def read(self, token: str, now: float) -> Claims | None:
        """What a token claims, if it was signed here and holds now."""
        try:
            claims = self._read(token)
        except jwt.InvalidTokenError:
            return None
        return claims if claims.get("nbf", 0) <= now < claims["exp"] else None

    def published(self) -> list[dict[str, Any]]:
        """The public keys, as a JSON Web Key Set lists them."""
        return [
            {"use": "sig", "kid": kid, "alg": ALGORITHM, **ECAlgorithm.to_jwk(key, as_dict=True)}
            for kid, key in self._public.items()
        ]

    def _verify(self, token: str) -> Claims:
        """What a token claims; raises InvalidTokenError unless it was signed here."""
        kid = jwt.get_unverified_header(token).get("kid")
        # Tokens of earlier versions name no key.
        for key in [key for name, key in self._public.items() if kid in (None, name)]:
            with contextlib.suppress(jwt.InvalidTokenError):
                claims: Claims = jwt.decode(token, key, algorithms=[ALGORITHM], options=_TIMELESS)
                return claims
        raise jwt.InvalidTokenError("not signed here")


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """The name of a key: a digest of its public half, as Kubernetes names them."""
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(key.public_bytes(encoding, form)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
