"""Lines with colours, which follow NO_COLOR and whether there is a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from penstock.cli.terminal import console

_console = console()


def print_pieces(pieces: Sequence[tuple[str, str]], indent: str = "") -> None:
    """Prints pieces of text, each with its style."""
    line = Text(indent)
    for number, (text, style) in enumerate(pieces):
        line.append("  " if number else "").append(text, style=style)
    _console.print(line)
