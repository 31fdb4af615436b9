"""What commands print: text that is safe on a terminal, and tables.

Data of events, responses of subscribers and messages of programs are untrusted: an escape sequence in them could change
what the terminal shows, its title or its clipboard. So on a terminal control characters are shown as JSON writes them,
`\u001b`. Into a file or a pipe everything is written unchanged: programs that read it may need every byte.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence

_CONTROL = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but tab and newline, and DEL
    "\x80-\x9f"  # C1: 0x9b alone begins an escape sequence
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # they change the order in which letters are shown
    "\u2028\u2029"  # they end lines
    "\ud800-\udfff"  # cannot be written as UTF-8
    "]"
)


def safe(text: str) -> str:
    """The text with control characters escaped, safe to show on a terminal."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints text that may contain untrusted parts: unchanged, or with control characters escaped on a terminal."""
    stream = sys.stderr if err else sys.stdout
    # Not typer.echo, which leaves out escape sequences where there is no terminal.
    stream.write((safe(text) if stream.isatty() else text) + ("\n" if nl else ""))
    stream.flush()


def lines_of(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """A table as wide as its content, line by line, never cut; columns of `numbers` are aligned to the right."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    return [_line(row, widths, [heading in numbers for heading in headings]) for row in table]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [cell.rjust(w) if to_right else cell.ljust(w) for cell, w, to_right in zip(row, widths, right, strict=True)]
    return "  ".join(cells).rstrip()
