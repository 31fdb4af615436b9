"""From when to when: moments as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.engine.problem import Problem
from penstock.timestamps import parse_rfc3339

_AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True)
class Window:
    """From `since` up to, not including, `until`."""

    since: datetime
    until: datetime

    @classmethod
    def read(cls, since: str, until: str | None, now: datetime) -> Window:
        """`24h`, `30m` or `7d` ago, or an RFC 3339 time; without `until`, up to now. Raises Problem."""
        window = cls(_moment(since, now), now if until is None else _moment(until, now))
        if window.since >= now:
            raise Problem(f"--since {since} is in the future: there are no events yet.", exit_code=2)
        if window.since >= window.until:
            raise Problem("The window is empty: --since is not before --until.", exit_code=2)
        return window


def _moment(text: str, now: datetime) -> datetime:
    if (ago := _AGO.fullmatch(text.strip())) is not None:
        try:
            return now - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
        except OverflowError:
            return datetime.fromtimestamp(0, UTC)
    try:
        return parse_rfc3339(text).astimezone(UTC)
    except ValueError:
        raise Problem(
            f"{text} is no moment.",
            "Write 30m, 24h or 7d for so long ago, or a time such as 2026-11-01T00:00:00Z.",
            exit_code=2,
        ) from None
