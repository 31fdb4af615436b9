"""The attributes that tell a dead letter's receiver what went wrong.

Knative's own (`knativeerrordest`, `knativeerrorcode`, `knativeerrordata`) and those of the delivery design
(`deadlettersubscriberuri`, `deadletterreason`, `deadletterretry`).
"""

from __future__ import annotations

import base64

from penstock.dispatcher.cursors.stage_payload import Failure
from penstock.events.event import CloudEvent

ERROR_DATA_LIMIT = 1024
"""Characters of `knativeerrordata`, counted after encoding."""

_RAW_LIMIT = ERROR_DATA_LIMIT // 4 * 3
NO_ANSWER = 500
"""`knativeerrorcode` where no answer came."""


def error_data(body: bytes) -> str:
    """`knativeerrordata` of an answer's body: base64, cut to 1024 characters. Empty for an empty body."""
    return base64.b64encode(body[:_RAW_LIMIT]).decode()


def no_answer_data(reason: str) -> str:
    """`knativeerrordata` where no answer came: what the attempt ended with."""
    return error_data(f"dispatch error: {reason}".encode())


def dead_letter(event: CloudEvent, failure: Failure) -> CloudEvent:
    """The original event with the story of its failure."""
    return event.with_attributes(
        knativeerrordest=failure.dest,
        knativeerrorcode=str(failure.code),
        knativeerrordata=failure.data,
        deadlettersubscriberuri=failure.subscriber,
        deadletterreason=failure.reason,
        deadletterretry=str(failure.attempts),
    )
