"""Lines of a shell as pages and helps show them: whether `penstock` would understand what it is told there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from penstock.cli import app

PROGRAMS = ("penstock", ".venv/bin/penstock")

Refusal: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What every refusal of a command line is; typer has it, without a public name."""


def misunderstood(line: str) -> Iterator[str]:
    """What `penstock` would refuse in this line: a command or a flag that is not there, a value of the wrong kind."""
    for words in calls(line):
        if problem := refused(words):
            yield f"penstock {' '.join(words)}: {problem}"


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each call of `penstock` in a line of a shell."""
    for part in re.split(r"\s+(?:&&|\|\||[|;&])(?:\s+|$)", line):
        words = words_of(part)
        while words and re.fullmatch(r"[A-Z_]+=.*|exec|sudo|nohup", words[0]):
            words = words[1:]
        if words and words[0] in PROGRAMS:
            yield without_redirections(words[1:])


def words_of(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that closes on another line
        return []


def without_redirections(words: list[str]) -> list[str]:
    end = next((i for i, word in enumerate(words) if re.match(r"\d?[<>]|&$", word)), len(words))
    return [word for word in words[:end] if word != "…"]


@cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def refused(words: list[str]) -> str | None:
    """Why the words are not understood. Nothing is run."""
    command = whole_command()
    try:
        while isinstance(command, TyperGroup):
            if not words or words[0].startswith("-"):
                return None
            _, command, words = command.resolve_command(typer.Context(command), words)
        command.make_context(command.name, words).close()
    except typer.Exit:
        return None
    except Refusal as problem:
        return str(problem.format_message())
    return None
