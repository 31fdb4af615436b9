"""Tokens that the server signs: JSON Web Tokens, made and read with a key that never leaves the data folder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.types import Options

from penstock.private_files import write_private

KEY_FILE = "tokens.key"
"""In the folder of the certificates."""
_ALGORITHM = "ES256"
_REMEMBERED = 1024

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
    """Signs tokens, and knows its own signature."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._private, self._public = key, key.public_key()
        # To check a signature takes many times longer than anything else about a request.
        self._read = lru_cache(_REMEMBERED)(self._verify)

    def sign(self, claims: Claims) -> str:
        """The token of these claims."""
        return jwt.encode(claims, self._private, algorithm=_ALGORITHM)

    def read(self, token: str, now: float) -> Claims | None:
        """What a token claims, if it was signed here and holds now."""
        claims = self._read(token)
        return claims if claims and claims.get("nbf", 0) <= now < claims["exp"] else None

    def _verify(self, token: str) -> Claims | None:
        try:
            claims: Claims = jwt.decode(token, self._public, algorithms=[_ALGORITHM], options=_TIMELESS)
        except jwt.InvalidTokenError:
            return None
        return claims


def load_signer(folder: Path) -> Signer:
    """The signer with the key in the folder, which is made if there is none."""
    path = folder / KEY_FILE
    if not path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        write_private(path, key.private_bytes(encoding, form, serialization.NoEncryption()))
    stored = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(stored, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not the key that penstock made; remove the file to make a new one")
    return Signer(stored)
