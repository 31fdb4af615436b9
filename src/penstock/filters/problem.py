"""What is wrong with a filter, in the words of a Knative field error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """Why a filter cannot be accepted, in the three parts of a Knative field error."""

    path: str
    message: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.path}" + (f"\n{self.details}" if self.details else "")


def is_text(text: str) -> bool:
    """Whether it can be written down; half of a surrogate pair cannot, so no event holds it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
