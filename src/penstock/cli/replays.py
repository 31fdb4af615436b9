"""`penstock replay`, `penstock deadletters`, `penstock redrive`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.dead_letters import as_data, counts_table, each_table, wanted_of
from penstock.cli.options import (
    DataDirOption,
    JsonOption,
    KubeconfigOption,
    NamespaceOption,
    SinceOption,
    UntilOption,
)
from penstock.cli.output import say
from penstock.kube.kinds import Obj
from penstock.operations.replays import ReplaySubject

if TYPE_CHECKING:
    from penstock.operations.cluster_api import ClusterApi

LOOK_SECONDS = 0.5

PlaceArgument = Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as trigger/orders.")]
IdOption = Annotated[list[str] | None, typer.Option("--id", help="Only the event with this id. May be repeated.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Events a second at most.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count, and deliver nothing.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Stay until it is done, and show how far it is.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the Replay. (default: one that is made up)")]


def replay(
    place: PlaceArgument,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    ids: IdOption = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="NAME=VALUE", help="Only with this attribute. Repeatable.")
    ] = None,
    sink: Annotated[str | None, typer.Option("--sink", help="URL that gets the events of a Broker or channel.")] = None,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    watch: WatchOption = False,
    name: NameOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver events once more: to a Trigger or Subscription, or those of a Broker or channel to a sink."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.operations.replays import Wishes, replay_of

    with problems():
        wishes = Wishes(since, until, tuple(ids or ()), tuple(where or ()), sink, rate, dry_run)
        subject = ReplaySubject.read(place)
        wanted = replay_of(subject, wishes, name)
        with find(data_dir, kubeconfig).api() as api:
            _make(api, namespace or api.namespace, subject, wanted, watch=watch, as_json=as_json)


def redrive(
    place: PlaceArgument,
    *,
    reason: Annotated[str | None, typer.Option("--reason", help="Only what was given up for such a reason.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    ids: IdOption = None,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    watch: WatchOption = False,
    name: NameOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver once more what a Trigger or Subscription gave up; `penstock deadletters` lists it."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.operations.replays import Wishes, replay_of
    from penstock.runtime.errors import UserError

    with problems():
        given = ReplaySubject.read(place)
        if not given.is_route:
            raise UserError(f"A {given.kind} gives nothing up.", "Name the Trigger or Subscription.", exit_code=2)
        wishes = Wishes(since, until, tuple(ids or ()), (), None, rate, dry_run, given_up=True, reason=reason)
        with find(data_dir, kubeconfig).api() as api:
            _make(api, namespace or api.namespace, given, replay_of(given, wishes, name), watch=watch, as_json=as_json)


def _make(api: ClusterApi, namespace: str, subject: ReplaySubject, wanted: Obj, *, watch: bool, as_json: bool) -> None:
    """Creates the Replay, if its object exists, and shows its progress if asked to."""
    import json

    from penstock.cli.names import resource_named
    from penstock.cli.terminal import console
    from penstock.operations.cluster_api import REPLAYS
    from penstock.operations.replays import succeeded

    api.get(resource_named(subject.kind.lower()), namespace, subject.name)  # raises where it does not exist
    made = api.create(REPLAYS, namespace, wanted)
    name = made["metadata"]["name"]
    if not as_json:
        console().print(f"replay {namespace}/{name} was made", markup=False)
    if watch:
        made = _watch(api, REPLAYS, namespace, name, quiet=as_json)
    if as_json:
        say(json.dumps(made, indent=2))
    elif not watch:
        console().print(f"  see how it goes: kubectl get replay {name} -n {namespace} -w", markup=False)
        console().print(f"  stop it:         kubectl delete replay {name} -n {namespace}", markup=False)
    if watch and succeeded(made)[0] != "True":
        raise typer.Exit(1)


def _watch(api: ClusterApi, replays: Any, namespace: str, name: str, *, quiet: bool) -> Obj:
    """Until it is over. Ctrl-C ends the watching, not the Replay."""
    from penstock.cli.terminal import console
    from penstock.operations.replays import is_over, line_of, warning_of

    screen, shown, found = console(), "", api.get(replays, namespace, name)
    with screen.status("") if screen.is_terminal and not quiet else _Silent() as status:
        while not is_over(found):
            line = line_of(found)
            if screen.is_terminal:
                status.update(line)
            elif line != shown and not quiet:
                screen.print(line, markup=False)
            shown = line
            time.sleep(LOOK_SECONDS)
            found = api.get(replays, namespace, name)
    if not quiet:
        screen.print(line_of(found), markup=False)
        if warning := warning_of(found):
            screen.print(f"note: {warning}", markup=False)
    return found


class _Silent:
    """In place of a status line."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def update(self, line: str) -> None:
        """Nobody looks."""


def deadletters(
    place: Annotated[
        str | None, typer.Argument(metavar="[KIND/NAME]", help="Only those of trigger/orders. (default: all)")
    ] = None,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only with a reason that contains this.")] = None,
    each: Annotated[bool, typer.Option("--each", help="List every event, the newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="Events to list at most.")] = 100,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was given up, by route and reason: dropped, or sent to a dead letter sink."""
    import json

    from penstock.cli.terminal import console, problems
    from penstock.history.reader.history import History
    from penstock.history.schema.columns import HistoryProblem
    from penstock.operations.installation import find
    from penstock.runtime.errors import UserError

    with problems():
        wanted = wanted_of(place, namespace, since, until, reason=reason, limit=limit, now=datetime.now(UTC))
        settings = find(data_dir, kubeconfig).kafka_settings("penstock deadletters")
        try:
            with History(settings) as history:
                found = history.deadletters(wanted) if each else history.deadletter_counts(wanted)
                away = history.without_kafka
        except HistoryProblem as problem:
            raise UserError(str(problem)) from problem
        if as_json:
            say(json.dumps([as_data(one) for one in found], indent=2))
        elif found:
            for line in each_table(found) if each else counts_table(found):
                console().print(line, markup=False)
        else:
            console().print("nothing was given up")
        if away:
            raise UserError(f"Kafka does not answer, so the newest may be missing: {away}")
