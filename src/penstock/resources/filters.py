"""Checks of filters: what cannot be filtered by is not stored."""

from __future__ import annotations

from typing import Any

from penstock.filters.parse import problems_of
from penstock.filters.validate import filters_on_data
from penstock.resources.admission import AdmissionContext
from penstock.resources.field_errors import FieldError, FieldErrors, disallowed

ON_DATA_OFF = "filters on data are turned off here: see the setting filters_on_data"


def check_filters(attributes: Any, filters: Any, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about `filter.attributes` and `filters`."""
    problems = problems_of(attributes, filters)
    if problems or ctx.settings.filters_on_data:
        return [FieldError(found.message, (found.path,), found.details) for found in problems]
    return [disallowed(path, details=ON_DATA_OFF) for path in filters_on_data(filters, "filters")]
