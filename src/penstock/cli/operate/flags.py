"""Flags that several of these commands have. Nothing heavy is imported here: every start of `penstock` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_TYPE = "dev.penstock.message"
DEFAULT_SOURCE = "/penstock/send"

DataArgument = Annotated[str | None, typer.Argument(metavar="[DATA]", help="The data; - reads it from standard input.")]
TypeOption = Annotated[str | None, typer.Option("--type", "-t", help=f"Attribute type. (default: {DEFAULT_TYPE})")]
SourceOption = Annotated[str | None, typer.Option("--source", help=f"Attribute source. (default: {DEFAULT_SOURCE})")]
IdOption = Annotated[str | None, typer.Option("--id", help="Attribute id. (default: a new one)")]
SubjectOption = Annotated[str | None, typer.Option("--subject", help="Attribute subject.")]
AttributeOption = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="Any other attribute. May be repeated."),
]
ContentTypeOption = Annotated[
    str | None,
    typer.Option(
        "--content-type", help="Media type of the data. (default: application/json where it is, or text/plain)"
    ),
]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="File of the data; - is standard input.")]
EventOption = Annotated[
    Path | None, typer.Option("--event", "-e", help="File of a whole event in CloudEvents JSON; - is standard input.")
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="Only what passes: type=greeting, {prefix: {type: com.}} as in a Trigger, or CESQL. May be repeated.",
    ),
]
