"""Flags by which every command says which penstock, and which namespace, it speaks with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.problem import Problem

DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data folder of the stack that is meant. (default: the one that runs)"),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the installation that is meant, here or elsewhere.")
]


def complete_namespaces(incomplete: str) -> list[str]:
    """Completes names of namespaces, in the shell; nothing where no stack runs."""
    from penstock.operations.installation import find

    try:
        with find().api() as api:
            items = (api.read("/api/v1/namespaces") or {}).get("items") or []
    except Problem:
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
