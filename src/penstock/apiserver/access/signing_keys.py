"""The keys that sign tokens (JSON Web Tokens): files beside the certificates, rotated by the API server.

```
created ----AHEAD----> signs ----`days`----> the next key signs ----`days`----> removed
```

A key is published before it signs, so that verifiers have fetched it before the first token signed by it. Which key
signs follows from the file names and the time alone, so the API server and the commands that issue tokens always agree.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
import time
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.types import Options

from penstock.observability.logs import describe
from penstock.runtime.files import write_private

ALGORITHM = "ES256"
MAX_CACHED = 1024
"""Valid tokens whose signature is not checked again."""

_TIMELESS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "require": ["exp", "iss", "sub"],
}
"""For the signature alone, which is checked once per token; times and audiences are checked with every request."""

Claims = dict[str, Any]
KEY_FILE = "tokens.key"
"""The first key. Later ones have their creation time (Unix seconds) in the file name."""
AHEAD_SECONDS = 3600.0
"""How long a key is published before it signs."""
CHECK_SECONDS = 300.0
DAY = 86400.0
_DATED = re.compile(r"tokens-(\d+)\.key")

log = structlog.get_logger(__name__)


class Signer:
    """Signs tokens with one key, and verifies tokens signed with it, with older keys and with the next one."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, *others: ec.EllipticCurvePrivateKey) -> None:
        self.longest_seconds = float("inf")
        """The longest lifetime of a token: its key must still exist when it expires."""
        self.use(key, *others)

    def use(self, key: ec.EllipticCurvePrivateKey, *others: ec.EllipticCurvePrivateKey) -> None:
        """Signs with this key from now on, and accepts tokens signed with any of them."""
        self._private, self._kid = key, key_id(key.public_key())
        self._public = {key_id(one.public_key()): one.public_key() for one in (key, *others)}
        # Checking a signature takes far longer than anything else about a request, so results are cached. `_verify`
        # raises for invalid tokens, which lru_cache does not keep: they cannot evict valid ones.
        self._read = lru_cache(MAX_CACHED)(self._verify)

    def sign(self, claims: Claims) -> str:
        """The token of these claims."""
        return jwt.encode(claims, self._private, algorithm=ALGORITHM, headers={"kid": self._kid})

    def read(self, token: str, now: float) -> Claims | None:
        """The claims of a token; None if it was not signed here or is not valid now."""
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
        """The claims of a token; raises InvalidTokenError unless it was signed here."""
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


class KeyFile(NamedTuple):
    """A key and its creation time."""

    made: float
    path: Path


class KeyUpkeep(NamedTuple):
    """Whether a new key is due, and which keys no valid token can be signed with."""

    needs_new: bool
    expired: tuple[KeyFile, ...]


def signing_key(keys: list[KeyFile], now: float) -> KeyFile:
    """The key that signs: the newest one published for AHEAD_SECONDS, or else the oldest."""
    known = [key for key in keys if key.made <= now - AHEAD_SECONDS]
    return max(known) if known else min(keys)


def key_upkeep(keys: list[KeyFile], now: float, days: float) -> KeyUpkeep:
    """What is due for these keys at this time."""
    ordered = sorted(keys)
    if not ordered:
        return KeyUpkeep(True, ())
    needs_new = now >= ordered[-1].made + days * DAY
    expired = tuple(key for key, successor in pairwise(ordered) if now >= successor.made + AHEAD_SECONDS + days * DAY)
    return KeyUpkeep(needs_new, expired)


def key_files(folder: Path) -> list[KeyFile]:
    """The keys in the folder."""
    found = [KeyFile(float(name[1]), path) for path in folder.glob("*.key") if (name := _DATED.fullmatch(path.name))]
    first = folder / KEY_FILE
    return [KeyFile(first.stat().st_mtime, first), *found] if first.exists() else found


def load_signer(folder: Path, now: float | None = None) -> Signer:
    """A signer with the keys in the folder; creates the first key if there is none."""
    if not key_files(folder):
        _create_key(folder / KEY_FILE)
    return Signer(*_load_keys(folder, time.time() if now is None else now))


def rotate_keys(folder: Path, signer: Signer, days: float, now: float) -> None:
    """Creates and removes keys that are due, and hands the current ones to the signer."""
    due = key_upkeep(key_files(folder), now, days)
    if due.needs_new:
        _create_key(folder / f"tokens-{int(now)}.key")
        log.info("created a new key for tokens; it signs after", seconds=AHEAD_SECONDS)
    for key in due.expired:
        key.path.unlink(missing_ok=True)
    signer.longest_seconds = days * DAY
    signer.use(*_load_keys(folder, now))


async def rotate_keys_forever(folder: Path, signer: Signer, days: float) -> None:
    """Rotates the keys until cancelled."""
    while True:
        try:
            rotate_keys(folder, signer, days, time.time())
        except OSError as error:
            # A full disk, for example: the existing keys stay in use.
            log.warning("the keys for tokens could not be rotated", error=describe(error))
        await asyncio.sleep(CHECK_SECONDS)


def _load_keys(folder: Path, now: float) -> list[ec.EllipticCurvePrivateKey]:
    keys = key_files(folder)
    signs = signing_key(keys, now)
    return [_load_key(key.path) for key in (signs, *sorted(key for key in keys if key != signs))]


def _create_key(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_private(path, key.private_bytes(encoding, form, serialization.NoEncryption()))


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    stored = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(stored, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not a key that penstock created; remove the file to create a new one")
    return stored
