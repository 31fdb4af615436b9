"""Flags shared by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of everything the stack keeps. (default: .penstock)")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as retention_hours=24. May be repeated."),
]
