"""Signatures of deliveries by the rules of Standard Webhooks: who was given the secret can tell who sent it.

What is signed is the body, with an id and the time of the attempt. The id is that of the event as this route sends it:
the same for every attempt, so that a receiver that has seen it before knows it again, and another for another route.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import STAGE_NAMES, Stage
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.matched.record import Matched
from penstock.resources.secrets.signing import SigningKeys

ID_BYTES = 20


def message_id(route: Route, stage: Stage, record: Matched, payload: StagePayload | None) -> str:
    """What a receiver knows a delivery by that it may get more than once."""
    ident, source, _ = record.identity
    if stage is Stage.REPLY and payload is not None:
        ident, source = payload.reply.id, payload.reply.source
    parts = (route.uid, STAGE_NAMES[stage], source, ident)
    # Their lengths keep apart what only looks alike when put together.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]
    return "msg_" + base64.b32encode(digest).decode().lower()


def signature_lines(keys: SigningKeys, ident: str, timestamp: int, body: bytes) -> bytes:
    """The header lines, with a signature for each of the keys in force."""
    signed = b"%b.%d.%b" % (ident.encode(), timestamp, body)
    signatures = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    return b"webhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\n" % (
        ident.encode(),
        timestamp,
        b" ".join(signatures),
    )
