"""Timestamps (RFC 3339), ISO 8601 durations, the times that users write in commands, and a monotonic clock."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

_SECOND = 1_000_000_000
_FRACTION = re.compile(r"\.(\d+)")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def rfc3339(moment: datetime | None = None) -> str:
    """The moment, or now, in whole seconds, as in Kubernetes' timestamps."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(nanoseconds: int | None = None) -> str:
    """Now, or Unix time in nanoseconds, without trailing zeros, as in Go's JSON."""
    value = time.time_ns() if nanoseconds is None else nanoseconds
    fraction = f"{value % _SECOND:09d}".rstrip("0")
    return rfc3339_of(value // _SECOND)[:-1] + (f".{fraction}" if fraction else "") + "Z"


def rfc3339_of(seconds: int) -> str:
    """RFC 3339 of Unix time."""
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def rfc3339_milli(seconds: float) -> str:
    """RFC 3339 of Unix time with three digits of milliseconds, as in log lines."""
    return f"{rfc3339_of(int(seconds))[:-1]}.{int(seconds % 1 * 1000):03d}Z"


def nanoseconds_of(text: str) -> int:
    """Unix time in nanoseconds. Raises ValueError."""
    fraction = _FRACTION.search(text)
    return int(parse_rfc3339(text).timestamp()) * _SECOND + int(f"{fraction[1][:9]:0<9}" if fraction else 0)


def is_rfc3339(text: str) -> bool:
    """Whether typed clients of Kubernetes can parse the text."""
    try:
        return _RFC3339.fullmatch(text) is not None and parse_rfc3339(text.upper()) is not None
    except ValueError:
        return False


def parse_rfc3339(text: str) -> datetime:
    """Parses RFC 3339 with any number of fractional digits; UTC if there is no zone. Raises ValueError."""
    # Python parses at most six digits, and Go writes nine.
    moment = datetime.fromisoformat(_FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text).replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# Years and months have no fixed length; as in Knative's library a year has 365.2425 days, and a month a twelfth of it.

_SECONDS = {"Y": 31_556_952.0, "M": 2_629_746.0, "W": 604_800.0, "D": 86_400.0}
_CLOCK_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0}
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION = re.compile(rf"(?P<sign>[+-])?P(?P<date>(?:{_NUMBER}[YMWD])*)(?:T(?P<clock>(?:{_NUMBER}[HMS])+))?", re.ASCII)
_PART = re.compile(rf"({_NUMBER})([A-Z])", re.ASCII)


class NotADuration(ValueError):
    """The text is not an ISO 8601 duration."""


def parse_duration(text: str) -> float:
    """Seconds of an ISO 8601 duration such as `PT2S`, `PT0.2S` or `P1DT12H`. Raises NotADuration."""
    found = _DURATION.fullmatch(text)
    if found is None or not (found["date"] or found["clock"]):
        raise NotADuration(f'"{text}" is not an ISO 8601 duration such as PT2S')
    total = _sum(found["date"], _SECONDS, "YMWD", text) + _sum(found["clock"] or "", _CLOCK_SECONDS, "HMS", text)
    return -total if found["sign"] == "-" else total


def _sum(parts: str, unit_seconds: dict[str, float], order: str, text: str) -> float:
    pairs = _PART.findall(parts)
    units = [unit for _, unit in pairs]
    if units != sorted(set(units), key=order.index):
        raise NotADuration(f'"{text}" names a unit twice or out of order')
    return sum((float(number.replace(",", ".")) * unit_seconds[unit] for number, unit in pairs), 0.0)


EARLIEST = "earliest"
EXPECTED = "expected 'earliest', a time (2026-11-01T00:00:00Z), or how long ago (90s, 1h30m, 7d, PT2H)"
_AGE_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def span_of(text: str) -> float | None:
    """The seconds of a duration such as `1h30m` or `PT2H`; None where the text is not a duration."""
    if text.startswith("P"):
        try:
            return parse_duration(text)
        except NotADuration:
            return None
    parts = _AGE_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def moment_of(text: str, now: float) -> float | None:
    """Unix time of a time as users write it: `earliest` (0), RFC 3339, or a duration before `now`. None if invalid."""
    if text == EARLIEST:
        return 0.0
    span = span_of(text)
    try:
        return max(0.0, parse_rfc3339(text).timestamp() if span is None else now - span)
    except (ValueError, OverflowError):
        return None


def now() -> float:
    """Seconds of a monotonic clock, including the time for which the machine was suspended if the system has such."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
