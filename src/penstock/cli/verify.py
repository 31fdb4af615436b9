"""`penstock verify`: accounts for every accepted event, route by route, and reports lost ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, JsonOption, KubeconfigOption, NamespaceOption, SinceOption, UntilOption
from penstock.cli.output import say

if TYPE_CHECKING:
    from penstock.contract.routes import Route
    from penstock.operations.cluster_api import ClusterApi
    from penstock.verification.report import MissingEvent, VerifyReport
    from penstock.verification.routes import InForce

LOST = 1
KINDS = {"trigger": "Trigger", "subscription": "Subscription"}
ALWAYS_SHOWN = ("delivered", "waiting", "lost")


def verify(
    routes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROUTE…]",
            help="trigger/NAME or subscription/NAME; a name alone means a Trigger. (default: all)",
            autocompletion=completion_of("trigger", "subscription"),
        ),
    ] = None,
    *,
    since: SinceOption = "1h",
    until: UntilOption = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Routes of all namespaces.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many missing events to name.")] = 20,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Account for every accepted event: delivered, waiting, dead-lettered, dropped or lost, route by route.

    Exits with 1 if events are lost, and with 2 if that cannot be determined.
    """
    from penstock.cli.terminal import SafeConsole, problems
    from penstock.operations.installation import find
    from penstock.operations.times import window
    from penstock.runtime.errors import UserError
    from penstock.verification.run import Question, verify

    with problems(), _exiting_with_2():
        begin, end = window(since, until)
        if begin is None:
            raise UserError("--since must not be empty.", exit_code=2)
        names = [_named(route) for route in routes or ()]
        if everywhere and (names or namespace):
            raise UserError("--all-namespaces cannot be combined with routes or --namespace.", exit_code=2)
        installation = find(data_dir, kubeconfig)
        settings = installation.kafka_settings("penstock verify")
        with installation.api() as api, SafeConsole(stderr=True, quiet=as_json).status("reading") as working:
            within = None if everywhere else namespace or api.namespace
            question = Question(begin, end or datetime.now(UTC), names, within, limit)
            report = verify(
                settings,
                question,
                _in_force_by(api),
                lambda what, count: working.update(f"reading {what}: {count:,}"),
            )
        if as_json:
            say(json.dumps(report.as_data(), indent=2))
        else:
            for line in lines(report):
                say(line)
    if report.missing_count:
        raise typer.Exit(LOST)


@contextmanager
def _exiting_with_2() -> Iterator[None]:
    """Exit code 1 is reserved for lost events, so that scripts can rely on it."""
    from penstock.runtime.errors import UserError

    try:
        yield
    except UserError as problem:
        raise UserError(problem.what, problem.remedy, problem.details, exit_code=2) from problem


def _named(text: str) -> tuple[str, str]:
    from penstock.cli.names import split
    from penstock.runtime.errors import UserError

    kind, name = split(text, "trigger")
    if kind not in KINDS:
        raise UserError(
            f"{text} is not a Trigger or Subscription: write trigger/NAME or subscription/NAME.", exit_code=2
        )
    return KINDS[kind], name


def _in_force_by(api: ClusterApi) -> InForce:
    """A function that reads from a Trigger's status since when it is in force."""

    def in_force(route: Route) -> datetime | None:
        from penstock.operations.cluster_api import TRIGGERS, NotThere

        try:
            return since_of(api.get(TRIGGERS, route.namespace, route.name), route)
        except NotThere:  # deleted in the meantime
            return None

    return in_force


def since_of(trigger: dict[str, Any], route: Route) -> datetime | None:
    """Since when a Trigger is in force as published; None if its status does not show it."""
    from penstock.resources.conditions import find
    from penstock.resources.trigger import SUBSCRIPTION_READY
    from penstock.runtime.times import parse_rfc3339

    metadata, status = trigger["metadata"], trigger.get("status") or {}
    ready = find(status.get("conditions"), SUBSCRIPTION_READY) or {}
    same = (metadata["uid"], metadata.get("generation")) == (route.uid, route.generation)
    if not same or status.get("observedGeneration") != route.generation or ready.get("status") != "True":
        return None
    return parse_rfc3339(ready["lastTransitionTime"])


def lines(report: VerifyReport) -> Iterator[str]:
    """The table, remarks, the missing events and the summary."""
    from penstock.cli.output import lines_of
    from penstock.verification.fates import FATES

    shown = [fate for fate in FATES if fate in ALWAYS_SHOWN or any(route.counts.get(fate) for route in report.routes)]
    headings = ("due", *shown, "route")
    rows = [
        (str(route.due), *(str(route.counts.get(fate, 0)) for fate in shown), route.label) for route in report.routes
    ]
    if rows:
        yield from lines_of(headings, rows, headings[:-1])
        yield ""
    for route in report.routes:
        if route.paused:
            yield f"{route.label} is paused"
        if route.unjudged or route.remark:
            earlier = f"{route.unjudged} earlier events are not judged" if route.unjudged else ""
            yield f"{route.label}: {'; '.join(filter(None, (route.remark, earlier)))}"
    yield from report.remarks
    if report.missing:
        yield f"missing: {len(report.missing)} of {report.missing_count}"
        yield from (f"  {_missing(one)}" for one in report.missing)
    yield report.summary


def _missing(one: MissingEvent) -> str:
    where = f"{one.route.label}, partition {one.partition} offset {one.offset}"
    if one.event is None:
        return f"{one.fate}  {where}; the event itself is no longer kept"
    arrival = one.event.arrival.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{one.fate}  {arrival}  {one.event.type}  {one.event.id}  from {one.event.source}  {where}"
