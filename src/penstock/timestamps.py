"""Moments as Kubernetes, CloudEvents and Go write them: RFC 3339 in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

_SECOND = 1_000_000_000
_FRACTION = re.compile(r"\.(\d+)")


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


def parse_rfc3339(text: str) -> datetime:
    """The moment, with any number of digits after the second; UTC where no zone is named. Raises ValueError."""
    # Python reads as many digits as it keeps, six, and Go writes nine.
    moment = datetime.fromisoformat(_FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text).replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
