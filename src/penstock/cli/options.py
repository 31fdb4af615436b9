"""Options shared by several commands. Every start of `penstock` imports this module, so it imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.runtime.errors import UserError

# Commands that start something.
StartDataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder with all data of the stack. (default: .penstock)")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as retention_hours=24. May be repeated."),
]

# Commands that use a running installation.
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data folder of the stack to use. (default: the running one)"),
]
KubeconfigOption = Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the installation to use.")]


def complete_namespaces(incomplete: str) -> list[str]:
    """Shell completion of namespaces; empty if no stack runs."""
    from penstock.kube.paths import api_path
    from penstock.operations.installation import find

    try:
        with find().api() as api:
            items = (api.read(api_path("v1", "namespaces")) or {}).get("items") or []
    except UserError:
        return []
    return [name for item in items if (name := item["metadata"]["name"]).startswith(incomplete)]


NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace. (default: the kubeconfig's, or default)",
        autocompletion=complete_namespaces,
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Start: 90s, 1h30m or 7d ago, 2026-11-17T10:00:00Z, or earliest."),
]
UntilOption = Annotated[str | None, typer.Option("--until", help="End, in the same form. (default: now)")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# Events and filters on the command line.
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
        "--content-type", help="Media type of the data. (default: application/json if it is JSON, otherwise text/plain)"
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
        help="Only matching events: type=greeting, {prefix: {type: com.}} as in a Trigger, or CESQL. May be repeated.",
    ),
]
