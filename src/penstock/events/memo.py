"""A cache of a pure function for short texts that are repeated often, such as the names of headers.

It remembers a bounded number and then stops, so senders with ever new names cost time but no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TypeVar

Text = TypeVar("Text", bound=Sized)
Value = TypeVar("Value")

CAPACITY = 1024
LENGTH = 64
"""Longer texts are not remembered."""


class Memo(dict[Text, Value]):
    """`remembered[text]` is `function(text)`; looking up what is known costs no call."""

    def __init__(self, function: Callable[[Text], Value]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: Text) -> Value:
        value = self._function(text)
        if len(self) < CAPACITY and len(text) <= LENGTH:
            self[text] = value
        return value
