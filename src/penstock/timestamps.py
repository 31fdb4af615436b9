"""Moments as Kubernetes, CloudEvents and Go write them: RFC 3339 in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

_SECOND = 1_000_000_000
_FRACTION = re.compile(r"\.(\d+)")
_WHOLE = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def rfc3339(moment: datetime | None = None) -> str:
    """The moment, or now, in whole seconds: the form of Kubernetes' own timestamps."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(nanoseconds: int | None = None) -> str:
    """Now, or the given time since 1970, to the nanosecond without trailing zeros: the form of Go's JSON."""
    value = time.time_ns() if nanoseconds is None else nanoseconds
    fraction = f"{value % _SECOND:09d}".rstrip("0")
    return rfc3339_of(value // _SECOND)[:-1] + (f".{fraction}" if fraction else "") + "Z"


def rfc3339_of(seconds: int) -> str:
    """The second that is so many after the beginning of 1970."""
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def rfc3339_milli(seconds: float) -> str:
    """The time since 1970 to the millisecond, always with three digits: the form of log lines."""
    return f"{rfc3339_of(int(seconds))[:-1]}.{int(seconds % 1 * 1000):03d}Z"


def nanoseconds_of(text: str) -> int:
    """The moment as the time since 1970, with all of its nine digits. Raises ValueError."""
    fraction = _FRACTION.search(text)
    return int(parse_rfc3339(text).timestamp()) * _SECOND + int(f"{fraction[1][:9]:0<9}" if fraction else 0)


def is_rfc3339(text: str) -> bool:
    """Whether typed clients of Kubernetes can read the text as a moment."""
    try:
        return _WHOLE.fullmatch(text) is not None and parse_rfc3339(text.upper()) is not None
    except ValueError:
        return False


def parse_rfc3339(text: str) -> datetime:
    """The moment, with any number of digits after the second; UTC where no zone is named. Raises ValueError."""
    # Python reads as many digits as it keeps, six, and Go writes nine.
    moment = datetime.fromisoformat(_FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text).replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
