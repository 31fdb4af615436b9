"""How a reply is matched to its request: by the request's id, and that id encrypted with a secret key.

`<id>:<nonce and ciphertext in base64>:<replica>`, as Knative writes it. An id may have colons of its own.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES, NONCE_BYTES, REPLICA = 32, 12, 0


def correlation_of(event_id: str, key: bytes) -> str:
    """What a request carries."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, event_id.encode(), None)
    return f"{event_id}:{base64.urlsafe_b64encode(sealed).decode()}:{REPLICA}"


def request_of(correlation: str, keys: Iterable[bytes]) -> str | None:
    """The id of the request that a reply is to; None where the correlation was not made with one of the keys."""
    parts = correlation.rsplit(":", 2)
    if len(parts) != 3:
        return None
    event_id, sealed, _ = parts
    try:
        data = base64.b64decode(sealed, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return event_id if any(_opens(data, event_id, key) for key in keys) else None


def _opens(data: bytes, event_id: str, key: bytes) -> bool:
    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None) == event_id.encode()
    except (InvalidTag, ValueError):
        return False
