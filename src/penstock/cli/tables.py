"""Tables of the commands: as wide as what they hold, and never cut, whatever the terminal's width."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def lines_of(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """The table, line by line; columns of `numbers` are aligned to the right. What may be long belongs at the end."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    return [_line(row, widths, [heading in numbers for heading in headings]) for row in table]


def duration(seconds: float | None) -> str:
    """A span of time in a few letters: `4s`, `3m 20s`, `2h 5m`, `9d 4h`."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s" if minutes else f"{rest}s"


def count(number: float) -> str:
    """A number in at most five characters: `99999`, `123k`, `1.2M`."""
    if number < 100_000:
        return str(round(number))
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1_000_000:.1f}M"


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [cell.rjust(w) if to_right else cell.ljust(w) for cell, w, to_right in zip(row, widths, right, strict=True)]
    return "  ".join(cells).rstrip()
