"""Secrets that deliveries are signed with, as Standard Webhooks has them: `whsec_` and 24 to 64 bytes in base64.

Every key of the Secret holds one, and all of them are in force: a new one is added, receivers learn it, the old one
goes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from penstock.resources.secrets.content import MalformedSecret

PREFIX = b"whsec_"
SHORTEST_BYTES, LONGEST_BYTES = 24, 64
MOST = 8
"""Secrets in force at once: each is a signature in every request."""

SigningKeys = tuple[bytes, ...]


def signing_keys(content: Mapping[str, bytes]) -> SigningKeys:
    """What to sign with, in the order of their names. Raises MalformedSecret."""
    if not content:
        raise MalformedSecret(f"it holds no secret; add one under any key, in the form {_FORM}")
    if len(content) > MOST:
        raise MalformedSecret(f"it holds {len(content)} secrets, and {MOST} can be in force at once; remove the oldest")
    return tuple(_key(name, content[name].strip()) for name in sorted(content))


_FORM = f"{PREFIX.decode()}<base64 of {SHORTEST_BYTES} to {LONGEST_BYTES} random bytes>"


def _key(name: str, text: bytes) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST_BYTES <= len(key) <= LONGEST_BYTES:
        raise MalformedSecret(
            f"what is under its key {name!r} is not of the form {_FORM}; replace it, or remove the key"
        )
    return key
