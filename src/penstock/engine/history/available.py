"""Whether this installation can keep a history: what it needs is an extra of the package, which may be missing."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.engine.problem import Problem
from penstock.history.reader.tables import HOW_TO_INSTALL
from penstock.settings import Settings

PACKAGES = ("deltalake", "duckdb", "pyarrow")


def checked(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings as they can be followed, and what a person should know of that.

    Raises Problem where a history was asked for: one that is kept by default only is done without.
    """
    lacking = [name for name in PACKAGES if find_spec(name) is None] if settings.history else []
    if not lacking:
        return settings, []
    what = f"The history of events is not kept: {', '.join(lacking)} not installed."
    if "history" in settings.model_fields_set:
        raise Problem(what, f"{HOW_TO_INSTALL}. Or set history=false.")
    return settings.model_copy(update={"history": False}), [f"{what} {HOW_TO_INSTALL}"]
