"""As whom events are sent, and whom the sender believes."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from penstock.operations.sending.addresses import SendingAddress
from penstock.tls.clients import tls_to


@dataclass(frozen=True)
class SendingCredentials:
    """What goes with every request."""

    token: str = field(default="", repr=False)
    trusted: ssl.SSLContext | None = None
    """None: what the system trusts."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those that say who sends."""
        return [("authorization", f"Bearer {self.token}")] if self.token else []


def credentials_to(address: SendingAddress, token: str = "", *authorities: str) -> SendingCredentials:
    """What to send to the address with, which is believed by its own and by these authorities, in PEM, beside the
    system's. Raises ValueError where a certificate cannot be used.
    """
    if not address.is_secure:
        return SendingCredentials(token)
    return SendingCredentials(token, tls_to("\n".join(filter(None, (address.authorities, *authorities)))))
