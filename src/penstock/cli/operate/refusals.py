"""What to do about an event that was not accepted, by how that was told."""

from __future__ import annotations

import ssl
from typing import Literal

import httpx2

Fault = Literal["none", "untrusted", "other name", "no TLS", "hung up"]
"""What was wrong with the connection itself, as far as something can be done about it by flags."""

_BY_FAULT = {
    "untrusted": "Name who signed its certificate: --ca-file FILE. A stack's own authority is pki/ca.crt in its data "
    "folder; kubectl get broker NAME -o jsonpath='{.status.address.CACerts}' has it too.",
    "other name": "Its certificate is for other names: send to one of those, or have this one added (address_base, "
    "tls_address_base).",
    "hung up": "Is it https:// in place of http://, or another port?",
    "no TLS": "Nothing speaks TLS at that port: is it http:// in place of https://, or another port?",
}
_BY_STATUS = {
    401: "Say who sends: --token KEY with an API key (penstock keys create BROKER NAME makes one) or with a token for "
    "its audience, --service-account NAME, or the variable PENSTOCK_SEND_TOKEN.",
    403: "The sender is known and may not send this. EventPolicies say who may: penstock get eventpolicies",
    404: "penstock get brokers and penstock get channels show what is there, and whether it is http or https.",
    429: "Send slower: --rate N.",
}


def remedy(status: int | None, fault: Fault = "none") -> str:
    """What to do next; empty where the answer says it all."""
    if status is not None:
        return _BY_STATUS.get(status, "")
    return _BY_FAULT.get(fault, "")


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
