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
    adopt_events: Annotated[
        bool,
        typer.Option(
            "--adopt-events",
            help="Go on with a penstock.events that is another log than before, a copy or one made again: every route "
            "gets all that it holds. Stop every control and pipeline first; of a stack that does not run, the Kafka is "
            "started for it.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    assignments: SetOption = None,
) -> None:
    """Check the topics in Kafka: what differs from the settings, and what to do about it.

    Ends with 0 if all is as it should be, with 3 if something differs, with 1 if Kafka does not answer or refuses.
    """
    import json

    from penstock.cli.terminal import problems
    from penstock.engine.topics import adoption, topic_admin
    from penstock.operations.settings_sources import load

    def administer_topics(settings: Settings) -> TopicsReport:
        adopted = adoption.adopt(settings) if adopt_events else []
        report = topic_admin.administer_topics(
            settings, create=create, configure=configure, partitions=partitions, force=force
        )
        report.done[:0] = adopted
        return report

    with problems():
        chosen = load(assignments, data_dir=data_dir, kafka=kafka)
        stopped = _stopped_stack(chosen) if adopt_events else None
        report = (
            administer_topics(_settings(chosen)) if stopped is None else _with_its_kafka(stopped, administer_topics)
        )
    if as_json:
        typer.echo(json.dumps(report.as_data(), indent=2))
    else:
        _print(report)
    if report.differences:
        raise typer.Exit(DIFFERS_EXIT_CODE)


def _stopped_stack(settings: Settings) -> Settings | None:
    """The settings that a stack had which does not run now: one that refuses its log does not come up."""
    from penstock.engine import datadir
    from penstock.operations.installation import folder_of

    folder = folder_of(settings.data_dir if "data_dir" in settings.model_fields_set else None)
    file = folder / datadir.SETTINGS_FILE
    if settings.kafka is not None or datadir.runs(folder) or not file.exists():
        return None
    before = datadir.load_settings(file)
    return before if before.kafka is None else None


def _with_its_kafka(settings: Settings, administer_topics: Callable[[Settings], TopicsReport]) -> TopicsReport:
    import asyncio

    from penstock.cli.terminal import StackScreen
    from penstock.engine import stack

    screen = StackScreen(stderr=True)
    return asyncio.run(stack.run_with_kafka_only(stack.prepare(settings, screen), screen, administer_topics))


def _settings(settings: Settings) -> Settings:
    """Those of the stack that runs, where no Kafka is named."""
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
        typer.echo("all as it should be")
