"""Checks of a Trigger's filters: what the router could not route by is not stored."""

from __future__ import annotations

from typing import Any

from penstock.filters.parse import problems_of
from penstock.resources.field_errors import FieldError, FieldErrors


def check_filters(attributes: Any, filters: Any) -> FieldErrors:
    """Every complaint about `filter.attributes` and `filters`."""
    return [FieldError(found.message, (found.path,), found.details) for found in problems_of(attributes, filters)]
