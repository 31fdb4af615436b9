"""A small chart for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.backtest.report import EventCounts

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: int, most: int, width: int) -> str:
    """A bar whose length is the value's share of the largest; a value above zero is always to be seen."""
    eighths = max(round(value * width * 8 / most), 1) if value else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def rows_of(hours: Mapping[datetime, EventCounts], most: int) -> list[tuple[str, EventCounts]]:
    """Labels and counts by hour, or by day where that would be too many rows."""
    if len(hours) <= most:
        return [(f"{hour:%m-%d %H:%M}", counts) for hour, counts in hours.items()]
    days: dict[str, EventCounts] = {}
    for hour, counts in hours.items():
        day = f"{hour:%Y-%m-%d}"
        days[day] = days[day] + counts if day in days else counts
    return list(days.items())
