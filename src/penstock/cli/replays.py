"""`penstock replay` and `penstock redrive`: create Replays and show their progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

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

POLL_SECONDS = 0.5

SubjectArgument = Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as trigger/orders.")]
IdOption = Annotated[list[str] | None, typer.Option("--id", help="Only the event with this id. May be repeated.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="Maximum rate, in events per second.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count, and deliver nothing.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Wait until it is done and show the progress.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the Replay. (default: generated)")]


def replay(
    subject: SubjectArgument,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    ids: IdOption = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="NAME=VALUE", help="Only with this attribute. Repeatable.")
    ] = None,
    sink: Annotated[
        str | None, typer.Option("--sink", help="URL to send the events of a Broker or Channel to.")
    ] = None,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    watch: WatchOption = False,
    name: NameOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver events again: to a Trigger or Subscription, or the events of a Broker or Channel to a sink."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.operations.replays import ReplayOptions, replay_of

    with problems():
        options = ReplayOptions(since, until, tuple(ids or ()), tuple(where or ()), sink, rate, dry_run)
        given = ReplaySubject.read(subject)
        requested = replay_of(given, options, name)
        with find(data_dir, kubeconfig).api() as api:
            _make(api, namespace or api.namespace, given, requested, watch=watch, as_json=as_json)


def redrive(
    subject: SubjectArgument,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Only events that failed with a reason that contains this.")
    ] = None,
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
    """Redeliver the events that a Trigger or Subscription dropped or dead-lettered; see `penstock deadletters`."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.operations.replays import ReplayOptions, replay_of
    from penstock.runtime.errors import UserError

    with problems():
        given = ReplaySubject.read(subject)
        if not given.is_route:
            raise UserError(
                f"A {given.kind} has no dead letters to redrive.", "Name a Trigger or Subscription.", exit_code=2
            )
        options = ReplayOptions(
            since, until, tuple(ids or ()), (), None, rate, dry_run, dead_letters=True, reason=reason
        )
        with find(data_dir, kubeconfig).api() as api:
            _make(api, namespace or api.namespace, given, replay_of(given, options, name), watch=watch, as_json=as_json)


def _make(api: ClusterApi, namespace: str, given: ReplaySubject, requested: Obj, *, watch: bool, as_json: bool) -> None:
    """Creates the Replay and, with `watch`, shows its progress."""
    import json

    from penstock.cli.names import resource_named
    from penstock.cli.terminal import console
    from penstock.operations.cluster_api import REPLAYS
    from penstock.operations.replays import succeeded

    api.get(resource_named(given.kind.lower()), namespace, given.name)  # raises where it does not exist
    made = api.create(REPLAYS, namespace, requested)
    name = made["metadata"]["name"]
    if not as_json:
        console().print(f"created replay {namespace}/{name}", markup=False)
    if watch:
        made = _watch(api, REPLAYS, namespace, name, quiet=as_json)
    if as_json:
        say(json.dumps(made, indent=2))
    elif not watch:
        console().print(f"  watch it: kubectl get replay {name} -n {namespace} -w", markup=False)
        console().print(f"  stop it:  kubectl delete replay {name} -n {namespace}", markup=False)
    if watch and succeeded(made)[0] != "True":
        raise typer.Exit(1)


def _watch(api: ClusterApi, replays: Any, namespace: str, name: str, *, quiet: bool) -> Obj:
    """Waits until it is over. Ctrl-C ends the waiting, not the Replay."""
    from penstock.cli.terminal import console
    from penstock.operations.replays import is_over, line_of, warning_of

    screen, shown, found = console(), "", api.get(replays, namespace, name)
    with screen.status("") if screen.is_terminal and not quiet else _NoStatus() as status:
        while not is_over(found):
            line = line_of(found)
            if screen.is_terminal:
                status.update(line)
            elif line != shown and not quiet:
                screen.print(line, markup=False)
            shown = line
            time.sleep(POLL_SECONDS)
            found = api.get(replays, namespace, name)
    if not quiet:
        screen.print(line_of(found), markup=False)
        if warning := warning_of(found):
            screen.print(f"note: {warning}", markup=False)
    return found


class _NoStatus:
    """A status line that shows nothing."""

    def __enter__(self) -> _NoStatus:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing."""

    def update(self, line: str) -> None:
        """Does nothing."""
