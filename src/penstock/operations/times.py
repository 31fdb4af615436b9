"""Moments as people write them: how long ago, or when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from penstock.engine.problem import Problem
from penstock.timestamps import parse_rfc3339

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def moment(text: str | None, now: datetime | None = None) -> datetime | None:
    """A span before now, or a moment; None where none is given. Raises Problem."""
    if text is None:
        return None
    spans = _SPAN.findall(text)
    if spans and "".join(number + unit for number, unit in spans) == text.strip():
        seconds = sum(float(number) * _UNITS[unit] for number, unit in spans)
        try:
            return (now or datetime.now(UTC)) - timedelta(seconds=seconds)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_rfc3339(text.strip())
    except ValueError:
        raise Problem(
            f"{text!r} is no time.", "Write a span (90s, 30m, 1h, 7d) or a moment (2026-11-17T10:00:00Z).", exit_code=2
        ) from None


def window(
    since: str | None, until: str | None, names: tuple[str, str] = ("--since", "--until")
) -> tuple[datetime | None, datetime | None]:
    """Both ends of a time. Raises Problem for one that lies in the future or ends before it begins."""
    begin, end = moment(since), moment(until)
    if begin is not None and begin > datetime.now(UTC):
        raise Problem(f"{names[0]} {since} is in the future: nothing has happened then.", exit_code=2)
    if begin is not None and end is not None and end <= begin:
        raise Problem(f"{names[1]} {until} is not after {names[0]} {since}.", exit_code=2)
    return begin, end
