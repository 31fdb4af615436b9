"""How many examples a property is tried with: what the profile says, or a multiple of it where more are worth it."""

from __future__ import annotations

from hypothesis import settings


def examples(factor: float) -> settings:
    """So many times the examples of the profile (see `conftest.py`), so that `make test` tries more than an editor."""
    return settings(max_examples=round(settings().max_examples * factor))
