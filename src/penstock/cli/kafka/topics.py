"""`penstock topics`: creates, checks and widens the topics of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import DataDirOption, SetOption

if TYPE_CHECKING:
    from penstock.engine.topics.care import TopicsReport
    from penstock.settings import Settings

DIFFERS_EXIT_CODE = 3


def topics(
    *,
    data_dir: DataDirOption = None,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="The Kafka that is meant. (default: the stack that runs)")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the topics that are missing.")] = False,
    configure: Annotated[
        bool, typer.Option("--configure", help="Give topics the limits that the settings say.")
    ] = False,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Give them so many partitions; there can only be more.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --partitions: also where events of a key could change their order.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    assignments: SetOption = None,
) -> None:
    """Check the topics in Kafka: what differs from the settings, and what to do about it.

    Ends with 0 if all is as it should be, with 3 if something differs, with 1 if Kafka does not answer or refuses.
    """
    import json

    from penstock.cli.terminal import problems
    from penstock.engine.topics import care
    from penstock.operations.settings_sources import load

    with problems():
        settings = _settings(load(assignments, data_dir=data_dir, kafka=kafka))
        report = care.look_after(settings, create=create, configure=configure, partitions=partitions, force=force)
    if as_json:
        typer.echo(json.dumps(report.as_data(), indent=2))
    else:
        _print(report)
    if report.differences:
        raise typer.Exit(DIFFERS_EXIT_CODE)


def _settings(settings: Settings) -> Settings:
    """Those of the stack that runs, where no Kafka is named."""
    if settings.kafka is not None:
        return settings
    from penstock.operations.installation import of_stack, running_folder

    chosen = settings.data_dir if "data_dir" in settings.model_fields_set else None
    return of_stack(running_folder(chosen)).settings or settings


def _print(report: TopicsReport) -> None:
    from penstock.cli.tables import lines_of

    headings = ("topic", "partitions", "replicas", "in sync", "kept for", "kept MiB", "cleanup")
    rows = [topic.cells() for topic in report.topics]
    for line in lines_of(headings, rows, numbers=("partitions", "replicas", "in sync", "kept MiB")):
        typer.echo(line)
    for done in report.done:
        typer.echo(done)
    for difference in report.differences:
        typer.echo(str(difference))
    if not report.differences:
        typer.echo("all as it should be")
