"""What to do about an event that was not accepted, by how that was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.operations.sending.faults import Fault

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
