"""The events of a run. Everything about an event follows from its number, so that none has to be remembered.

Sender `s` of `SENDERS` sends the numbers `s`, `s + SENDERS`, … one after the other, each when the one before it was
accepted. Most senders give their events a partition key, within which order is promised.
"""

from __future__ import annotations

SENDERS = 32
KEYED_SENDERS = 24

COMMON, LEFT, RIGHT, HEAVY, RARE = "chaos.common", "chaos.left", "chaos.right", "chaos.heavy", "chaos.rare"
ASK, ANSWER = "chaos.ask", "chaos.answer"
CHANNEL, CHANNEL_ANSWER = "chaos.channel", "chaos.channel-answer"

_CYCLE = (COMMON, LEFT, CHANNEL, RIGHT, ASK, COMMON, HEAVY, CHANNEL, RARE, COMMON, LEFT, CHANNEL, RIGHT)
"""Types in turn. Its length and the number of senders have no common divisor: every sender sends every type."""
_ANSWERS = {ASK: ANSWER, CHANNEL: CHANNEL_ANSWER}

Id = str
"""The number in decimal; with an `r` before it the reply to that event."""


def type_of(number: int) -> str:
    """The type of an event."""
    return _CYCLE[number % len(_CYCLE)]


def key_of(number: int) -> str | None:
    """The partition key of an event and of the reply to it."""
    sender = number % SENDERS
    return f"key-{sender}" if sender < KEYED_SENDERS else None


def of_key(sender: int, end: int) -> range:
    """The numbers below `end` that a sender sends, in their order."""
    return range(sender, end, SENDERS)


def answer_to(event_type: str) -> str | None:
    """The type of the reply that an event of this type gets."""
    return _ANSWERS.get(event_type)


def id_of(number: int, *, reply: bool = False) -> Id:
    """The id of an event, or of the reply to it."""
    return f"r{number}" if reply else str(number)


def parse(ident: Id) -> tuple[int, bool] | None:
    """Number of an event and whether it is the reply; None for an id that no event of a run has."""
    reply, digits = ident[:1] == "r", ident.removeprefix("r")
    return (int(digits), reply) if digits.isascii() and digits.isdigit() else None


def type_of_id(number: int, *, reply: bool) -> str | None:
    """The type of an event or reply; None for a reply to an event that gets none."""
    return answer_to(type_of(number)) if reply else type_of(number)
