"""Flags shared by commands, and how they become settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from penstock.settings import Settings

DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of everything the stack keeps. (default: .penstock)")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as retention_hours=24. May be repeated."),
]


def load(assignments: list[str] | None = None, **flags: Any) -> Settings:
    """The settings from flags, environment and file, in this order. Raises Problem for one that is wrong."""
    from pydantic import ValidationError

    from penstock.engine.problem import Problem
    from penstock.settings import SETTINGS_FILE, Settings

    given = {name: value for name, value in flags.items() if value is not None}
    for assignment in assignments or []:
        name, sign, value = assignment.partition("=")
        if not sign or name not in Settings.model_fields:
            known = ", ".join(sorted(Settings.model_fields))
            raise Problem(f"--set {assignment} names no setting.", f"Write NAME=VALUE with one of: {known}.")
        given[name] = value.split(",") if name == "broker_classes" else value
    try:
        return Settings(**given)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc'])) or 'settings'}: {one['msg']}" for one in error.errors()]
        raise Problem(
            "The settings are not valid: " + "; ".join(lines) + ".",
            f"They come from flags, then PENSTOCK_* variables{_variables()}, then {SETTINGS_FILE}.",
        ) from None
    except ValueError as error:
        raise Problem(f"{SETTINGS_FILE} cannot be read: {error}.", "It must be TOML: name = value.") from None


def _variables() -> str:
    found = sorted(name for name in os.environ if name.startswith("PENSTOCK_"))
    return f" (set now: {', '.join(found)})" if found else ""
