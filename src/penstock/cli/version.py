"""`penstock version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer


def version() -> None:
    """Print the versions of penstock, Python and Spark."""
    typer.echo(f"penstock {version_of('penstock')} (Python {platform.python_version()}, Spark {version_of('pyspark')})")


def print_and_exit(wanted: bool) -> None:
    """What `--version` does, as programs of this kind do it: the same line, and nothing else."""
    if wanted:
        version()
        raise typer.Exit
