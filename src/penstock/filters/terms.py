"""How large a predicate is, and how large it may be."""

from __future__ import annotations

from penstock.filters.predicate import Predicate
from penstock.filters.walk import parts

MAX_TERMS = 10_000
"""Comparisons, operators and values that one expression of the router's query may have. Each costs a millisecond or two
when the query starts, and other changes of routes wait meanwhile; far more would take all of Spark's memory."""


def count_terms(predicate: Predicate) -> int:
    """Comparisons, operators and values of a predicate."""
    return sum(1 for _ in parts(predicate))
