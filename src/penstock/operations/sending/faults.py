"""What was wrong with a connection to an ingress, in words."""

from __future__ import annotations

import ssl
from typing import Literal

import httpx2

Fault = Literal["none", "untrusted", "other name", "no TLS", "hung up"]
"""What was wrong with the connection itself, as far as something can be done about it by who sends."""


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """What is wrong with a connection, and what to call it, from a client's error and those behind it."""
    if isinstance(error, httpx2.RemoteProtocolError):
        return "hung up", ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
            fault: Fault = "other name" if cause.verify_code in (62, 64) else "untrusted"
            return fault, f"its certificate is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "no TLS", "what answers does not speak TLS"
        cause = cause.__cause__ or cause.__context__
    return "none", ""
