"""The keys that tokens are signed with: files in the folder of the certificates, replaced in time.

```
made ----AHEAD----> signs ----`days`----> signed by the next ----`days`----> removed
     published, so that everybody who verifies tokens knows it before the first one comes
```

Who reads the folder sees which key signs from the names of the files and the time alone, so the API server and the
commands that make tokens agree without speaking.
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

# Tokens that the server signs: JSON Web Tokens, made and read with keys that never leave the data folder.

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


KEY_FILE = "tokens.key"
"""The first key; those after it have the Unix time at which they were made in their names."""
AHEAD_SECONDS = 3600.0
"""How long a key is known before it signs."""
LOOK_SECONDS = 300.0
DAY = 86400.0

_LATER = re.compile(r"tokens-(\d+)\.key")

log = structlog.get_logger(__name__)


class KeyFile(NamedTuple):
    """A key, and when it was made."""

    made: float
    path: Path


class KeyUpkeep(NamedTuple):
    """What is to be done about the keys."""

    needs_new: bool
    outlived: tuple[KeyFile, ...]


def signing(keys: list[KeyFile], now: float) -> KeyFile:
    """The key that signs: the newest of those that have been known for a while, or else the oldest."""
    known = [key for key in keys if key.made <= now - AHEAD_SECONDS]
    return max(known) if known else min(keys)


def upkeep(keys: list[KeyFile], now: float, days: float) -> KeyUpkeep:
    """Whether it is time for a new key, and which are older than any token that they signed."""
    ordered = sorted(keys)
    if not ordered:
        return KeyUpkeep(True, ())
    needs_new = now >= ordered[-1].made + days * DAY
    outlived = tuple(key for key, successor in pairwise(ordered) if now >= successor.made + AHEAD_SECONDS + days * DAY)
    return KeyUpkeep(needs_new, outlived)


def key_files(folder: Path) -> list[KeyFile]:
    """The keys in the folder."""
    found = [KeyFile(float(name[1]), path) for path in folder.glob("*.key") if (name := _LATER.fullmatch(path.name))]
    first = folder / KEY_FILE
    return [KeyFile(first.stat().st_mtime, first), *found] if first.exists() else found


def load_signer(folder: Path, now: float | None = None) -> Signer:
    """The signer with the keys in the folder; one is made if there is none."""
    if not key_files(folder):
        _make(folder / KEY_FILE)
    return Signer(*_in_order(folder, time.time() if now is None else now))


def keep(folder: Path, signer: Signer, days: float, now: float) -> None:
    """Does what is due, and has the signer use what is there now."""
    due = upkeep(key_files(folder), now, days)
    if due.needs_new:
        _make(folder / f"tokens-{int(now)}.key")
        log.info("a new key for tokens was made; it signs from", seconds=AHEAD_SECONDS)
    for key in due.outlived:
        key.path.unlink(missing_ok=True)
    signer.longest_seconds = days * DAY
    signer.use(*_in_order(folder, now))


async def keep_forever(folder: Path, signer: Signer, days: float) -> None:
    """Looks after the keys until cancelled."""
    while True:
        try:
            keep(folder, signer, days, time.time())
        except OSError as error:
            # A full disk, say: the keys that are there stay in use.
            log.warning("the keys for tokens could not be looked after", error=describe(error))
        await asyncio.sleep(LOOK_SECONDS)


def _in_order(folder: Path, now: float) -> list[ec.EllipticCurvePrivateKey]:
    keys = key_files(folder)
    signs = signing(keys, now)
    return [_load(key.path) for key in (signs, *sorted(key for key in keys if key != signs))]


def _make(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_private(path, key.private_bytes(encoding, form, serialization.NoEncryption()))


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    stored = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(stored, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not the key that penstock made; remove the file to make a new one")
    return stored
