"""Where a Broker or Channel takes events, by its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SendingAddress:
    """Where a Broker or Channel takes events."""

    url: str
    """Empty where it has none yet."""
    authorities: str = ""
    """Certificates, in PEM, of who signs for its server beside those whom the system trusts."""
    audience: str = ""
    """For whom a token of the sender has to be; empty: none is asked for."""

    @property
    def is_secure(self) -> bool:
        """Whether events go there over TLS."""
        return self.url.lower().startswith("https:")


def address_in(obj: Mapping[str, Any]) -> SendingAddress:
    """The address that the object's status has."""
    status = (obj.get("status") or {}).get("address") or {}
    return SendingAddress(*(str(status.get(name) or "") for name in ("url", "CACerts", "audience")))
