"""`penstock doctor`: whether this machine can run the stack, and what to do where it cannot."""

from __future__ import annotations

import typer

from penstock.cli.options import SetOption, StartDataDirOption


def doctor(data_dir: StartDataDirOption = None, assignments: SetOption = None) -> None:
    """Check Python, Java, jars, ports, disk and memory; say what to do about what is wrong."""
    from penstock.cli.terminal import console, problems
    from penstock.engine import checkup
    from penstock.operations.settings_sources import load

    with problems():
        findings = checkup.examine(load(assignments, data_dir=data_dir))
    out = console()
    marks = {"good": "[green]ok[/green]  ", "note": "[yellow]note[/yellow]", "bad": "[red]bad[/red] "}
    for finding in findings:
        out.print(f"{marks[finding.verdict]} ", end="")
        out.print(f"{finding.subject}: {finding.text}", markup=False)
        if finding.remedy:
            out.print(f"       {finding.remedy}", markup=False)
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)
