"""`penstock topics`: creates, checks and widens the topics of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import SetOption, StartDataDirOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.topics.topic_admin import TopicsReport
    from penstock.settings import Settings

DIFFERS_EXIT_CODE = 3


def topics(
    *,
    data_dir: StartDataDirOption = None,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="The Kafka to use. (default: that of the running stack)")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create missing topics.")] = False,
    configure: Annotated[
        bool, typer.Option("--configure", help="Set the limits of topics as the settings say.")
    ] = False,
    partitions: Annotated[int | None, typer.Option(min=1, help="Increase the number of partitions to this.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --partitions: even if events of a key could change their order.")
    ] = False,
    adopt_events: Annotated[
        bool,
        typer.Option(
            "--adopt-events",
            help="Continue with a penstock.events that was copied or created again: every route gets all its events. "
            "Stop every control and pipeline first; the embedded Kafka of a stopped stack is started for this.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    assignments: SetOption = None,
) -> None:
    """Check the topics in Kafka: what differs from the settings, and what to do about it.

    Exits with 0 if nothing differs, with 3 if something does, and with 1 if Kafka is unreachable or refuses.
    """
    import json

    from penstock.cli.terminal import problems
    from penstock.engine.topics import adoption, topic_admin
    from penstock.operations.settings_sources import load

    def check_topics(settings: Settings) -> TopicsReport:
        adopted = adoption.adopt(settings) if adopt_events else []
        report = topic_admin.administer_topics(
            settings, create=create, configure=configure, partitions=partitions, force=force
        )
        report.done[:0] = adopted
        return report

    with problems():
        chosen = load(assignments, data_dir=data_dir, kafka=kafka)
        stopped = _stopped_stack(chosen) if adopt_events else None
        report = check_topics(_settings(chosen)) if stopped is None else _with_embedded_kafka(stopped, check_topics)
    if as_json:
        typer.echo(json.dumps(report.as_data(), indent=2))
    else:
        _print(report)
    if report.differences:
        raise typer.Exit(DIFFERS_EXIT_CODE)


def _stopped_stack(settings: Settings) -> Settings | None:
    """The last settings of a stack that does not run: one that refuses its log cannot start."""
    from penstock.engine import datadir
    from penstock.operations.installation import folder_of

    folder = folder_of(settings.data_dir if "data_dir" in settings.model_fields_set else None)
    file = folder / datadir.SETTINGS_FILE
    if settings.kafka is not None or datadir.runs(folder) or not file.exists():
        return None
    before = datadir.load_settings(file)
    return before if before.kafka is None else None


def _with_embedded_kafka(settings: Settings, check_topics: Callable[[Settings], TopicsReport]) -> TopicsReport:
    import asyncio

    from penstock.cli.terminal import StackScreen
    from penstock.engine import stack

    screen = StackScreen(stderr=True)
    return asyncio.run(stack.run_with_kafka_only(stack.prepare(settings, screen), screen, check_topics))


def _settings(settings: Settings) -> Settings:
    """The settings of the running stack, unless they name a Kafka."""
    if settings.kafka is not None:
        return settings
    from penstock.operations.installation import of_stack, running_folder

    chosen = settings.data_dir if "data_dir" in settings.model_fields_set else None
    return of_stack(running_folder(chosen)).settings or settings


def _print(report: TopicsReport) -> None:
    from penstock.cli.output import lines_of

    headings = ("topic", "partitions", "replicas", "in sync", "kept for", "kept MiB", "cleanup")
    rows = [topic.cells() for topic in report.topics]
    for line in lines_of(headings, rows, numbers=("partitions", "replicas", "in sync", "kept MiB")):
        typer.echo(line)
    for done in report.done:
        typer.echo(done)
    for difference in report.differences:
        typer.echo(str(difference))
    if not report.differences:
        typer.echo("no differences")
