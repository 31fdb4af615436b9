"""Tables of the commands: as wide as what they hold, and never cut, whatever the terminal's width."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def lines_of(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """The table, line by line; columns of `numbers` are aligned to the right. What may be long belongs at the end."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    return [_line(row, widths, [heading in numbers for heading in headings]) for row in table]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [cell.rjust(w) if to_right else cell.ljust(w) for cell, w, to_right in zip(row, widths, right, strict=True)]
    return "  ".join(cells).rstrip()
