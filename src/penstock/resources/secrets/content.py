"""A Secret as the API has it: its data in base64. Errors never contain its values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any


class MalformedSecret(ValueError):
    """The Secret does not hold what it should; the text says what to do, and nothing of what it holds."""


def content_of(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """The data of a Secret, by key. Raises MalformedSecret."""
    try:
        return {name: base64.b64decode(str(text), validate=True) for name, text in (secret.get("data") or {}).items()}
    except (binascii.Error, ValueError):
        # The cause would be shown with what it is about.
        raise MalformedSecret("its data is not in base64") from None
