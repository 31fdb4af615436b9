"""`penstock tail`: shows events as they are accepted, or delivery attempts as they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, FilterOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.cli.live_view import LiveView
    from penstock.settings import Settings

KINDS = ("broker", "channel", "inmemorychannel", "trigger", "subscription")


def tail(
    what: Annotated[
        str | None,
        typer.Argument(
            help="broker/NAME, channel/NAME: events; trigger/NAME, subscription/NAME: deliveries. (default: events)",
            autocompletion=completion_of(*KINDS),
        ),
    ] = None,
    *,
    filters: FilterOption = None,
    deliveries: Annotated[bool, typer.Option("--deliveries", help="Deliveries of all routes, not events.")] = False,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Exit after so many lines.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every one instead of a sample.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show events, or deliveries, live; Ctrl-C ends it.

    If there are too many to read, a sample is shown with their number. Filters on deliveries can use id, source and
    type only.
    """
    from penstock.cli.filtering import predicate_of
    from penstock.cli.live_view import LiveView, ViewSelection
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems():
        installation = find(data_dir, kubeconfig)
        settings = installation.kafka_settings("penstock tail")
        wanted = ViewSelection(predicate_of(filters), is_attempts=deliveries)
        if what is not None:
            with installation.api() as api:
                wanted = wanted.narrowed(api, what, namespace or api.namespace)
        view = LiveView(wanted, as_json=as_json, count=count, everything=everything)
        _run(view, settings)


def _run(view: LiveView, settings: Settings) -> None:
    from penstock.kafka.topic_ends import KafkaAway

    try:
        view.run(settings)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except KafkaAway as error:
        raise UserError(f"Kafka cannot be read: {error}.") from None
