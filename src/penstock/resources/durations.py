"""ISO 8601 durations, as delivery options write them: `PT2S`, `PT0.2S`, `P1DT12H`.

Years and months have no fixed length; they count as Knative's library counts them, 365.2425 days and a twelfth of it.
"""

from __future__ import annotations

import re

_SECONDS = {"Y": 31_556_952.0, "M": 2_629_746.0, "W": 604_800.0, "D": 86_400.0}
_CLOCK_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0}
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION = re.compile(rf"(?P<sign>[+-])?P(?P<date>(?:{_NUMBER}[YMWD])*)(?:T(?P<clock>(?:{_NUMBER}[HMS])+))?", re.ASCII)
_PART = re.compile(rf"({_NUMBER})([A-Z])", re.ASCII)


class NotADuration(ValueError):
    """The text is not an ISO 8601 duration."""


def parse_duration(text: str) -> float:
    """The duration in seconds. Raises NotADuration."""
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
