"""`penstock conformance`: runs the event delivery tests against any installation, and writes the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import DataDirOption
from penstock.operations.installation import folder_of
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339

if TYPE_CHECKING:
    from penstock.conformance.catalog import DeliveryTest
    from penstock.conformance.report import ConformanceResult
    from penstock.conformance.runner import RunOptions

RESULTS = Path("build/conformance")

app = typer.Typer(help="Run the specifications' tests, and report on them.", no_args_is_help=True)

ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of the results of runs.")]


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="What to run: event-delivery.")] = "event-delivery",
    *,
    test: Annotated[
        list[str] | None, typer.Option("--test", "-t", help="Only this test (05). May be repeated.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Installation to test. (default: the stack's in --data-dir, or KUBECONFIG)")
    ] = None,
    data_dir: DataDirOption = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Run one after the other in the namespace conformance, as documented.")
    ] = False,
    image: Annotated[str | None, typer.Option(help="Image of the sinks and emitters, for a foreign cluster.")] = None,
    use_addresses: Annotated[
        bool, typer.Option("--use-addresses", help="Send to status.address.url, not to the documented names.")
    ] = False,
    late: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that a retry may be late; more for a slow machine. (default: 1)"),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the objects afterwards.")] = False,
    results: ResultsOption = RESULTS,
) -> None:
    """Follow the instructions of the document and check the expected results.

    Exits with 0 if all tests passed, 1 if one failed, 2 if they could not run.
    """
    import asyncio

    from penstock.cli.terminal import problems
    from penstock.conformance.catalog import LATE_SECONDS
    from penstock.conformance.cluster import kubeconfig as find_kubeconfig
    from penstock.conformance.runner import RunOptions

    with problems():
        if suite != "event-delivery":
            raise UserError(f"Unknown suite {suite}: the only one is event-delivery.", exit_code=2)
        tests = _chosen(test)
        try:
            path = find_kubeconfig(kubeconfig, folder_of(data_dir))
        except FileNotFoundError as error:
            raise UserError(
                f"{error}.", "Start a stack with `penstock dev`, or give --kubeconfig.", exit_code=2
            ) from None
        options = RunOptions(
            sequential=sequential,
            image=image,
            use_addresses=use_addresses,
            keep=keep,
            late=LATE_SECONDS if late is None else late,
        )
        outcome = asyncio.run(_run(path, tests, options, results))
    raise typer.Exit(1 if any(result.outcome == "failed" for result in outcome) else 0)


@app.command()
def report(
    *,
    results: ResultsOption = RESULTS,
    output: Annotated[Path | None, typer.Option(help="Folder to write to. (default: --results/report)")] = None,
) -> None:
    """Join the results of all runs with the assertions of the specifications: Markdown, JSON, JUnit.

    Exits with 1 if an assertion or a test failed, 2 if there are no results.
    """
    from penstock.cli.terminal import console, problems
    from penstock.conformance import report as reports

    with problems():
        try:
            runs = reports.read_all(results)
            rows = reports.load()
        except ValueError as error:
            raise UserError(str(error), exit_code=2) from None
        if not runs:
            raise UserError(
                f"There are no results in {results}.",
                "Run `penstock conformance run event-delivery` first.",
                exit_code=2,
            )
    table = reports.assemble(rows, runs)
    folder = output or results / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conformance.md").write_text(reports.to_markdown(table))
    (folder / "conformance.json").write_bytes(reports.to_json(table))
    (folder / "conformance.xml").write_bytes(reports.to_junit(table))
    out = console()
    for row in table.rows:
        if row.standing in ("failed", "not run"):
            out.print(f"{row.standing:10} {row.assertion.id:14} {row.assertion.text}", markup=False)
    for standing in ("passed", "failed", "not applicable", "not run"):
        out.print(f"{table.count(standing):5} {standing}")
    out.print(f"Written to {folder}.", markup=False)
    raise typer.Exit(1 if table.failed else 0)


@app.command()
def tests() -> None:
    """Print the tests that assertions name outside of tests/conformance, for pytest's command line."""
    from penstock.conformance.report import load

    named = dict.fromkeys(test for row in load() for test in row.tests)
    for test in named:
        if not test.startswith(("event-delivery/", "tests/conformance/")):
            typer.echo(test)


@app.command()
def manifests(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; control-plane/event-delivery is made inside.")],
) -> None:
    """Write the manifests of the event delivery tests, to follow the document by hand with kubectl."""
    import shutil

    from penstock.cli.terminal import console
    from penstock.conformance import catalog

    target = folder / catalog.FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for source in sorted(catalog.folder().glob("*.yaml")):
        shutil.copyfile(source, target / source.name)
    console().print(f"Written to {target}.", markup=False)


async def _run(path: Path, tests: list[DeliveryTest], options: RunOptions, results: Path) -> list[ConformanceResult]:
    from datetime import UTC, datetime

    from penstock.cli.terminal import console
    from penstock.conformance import runner
    from penstock.conformance.catalog import EARLY_SECONDS
    from penstock.conformance.cluster import Cluster
    from penstock.conformance.report import ResultFile, write

    out, titles = console(), {test.id: test.title for test in tests}
    started = datetime.now(UTC)
    cluster = Cluster(path)
    where = "one after the other in the namespace conformance" if options.sequential else "in namespaces of their own"
    out.print(f"Event delivery tests at {cluster.address}, {where}.", markup=False)
    out.print(f"A retry may be {EARLY_SECONDS:g} s early and {options.late:g} s late.", markup=False)

    def done(result: ConformanceResult) -> None:
        colour = "green" if result.outcome == "passed" else "red"
        out.print(f"[{colour}]{result.outcome}[/{colour}] {result.test} {titles[result.test]} ({result.seconds:.1f} s)")
        for problem in result.problems:
            out.print(f"         {problem}", markup=False)

    try:
        outcome = await runner.run(cluster, tests, options, done)
    finally:
        await cluster.close()
    stamp = rfc3339(started)
    write(results / "event-delivery.json", ResultFile("event-delivery", cluster.address, stamp, tuple(outcome)))
    passed = sum(result.outcome == "passed" for result in outcome)
    seconds = (datetime.now(UTC) - started).total_seconds()
    out.print(f"{passed} of {len(outcome)} passed in {seconds:.0f} s.", markup=False)
    return outcome


def _chosen(numbers: list[str] | None) -> list[DeliveryTest]:
    from penstock.conformance.catalog import TESTS, find

    if not numbers:
        return list(TESTS)
    chosen = []
    for number in numbers:
        found = find(number)
        if found is None:
            numbers_there = f"{TESTS[0].number} to {TESTS[-1].number}"
            raise UserError(f"Unknown test {number}: the tests are {numbers_there}.", exit_code=2)
        chosen.append(found)
    return chosen
