"""Durations as the test images take them: Go's notation (`1m30s`, `250ms`) or a plain number of seconds."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str) -> float:
    """The duration in seconds. Raises ValueError with a sentence for people."""
    text = text.strip()
    if text.isdecimal():
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is no duration: write a number of seconds, or for example 500ms, 5s, 1m30s')
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
