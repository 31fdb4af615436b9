"""`penstock tail`: events as they are accepted, or deliveries as they are made, while one looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, FilterOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.cli.live_view import LiveView

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
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many lines.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every one, however many there are.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show events, or deliveries, as they come; Ctrl-C ends it.

    Where more come than one can read, a sample is shown, and how many there were. Of deliveries, filters see id,
    source and type.
    """
    from penstock.cli.filtering import predicate_of
    from penstock.cli.live_view import LiveView, WantedView
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems():
        installation = find(data_dir, kubeconfig)
        settings = installation.kafka_settings("penstock tail")
        wanted = WantedView(predicate_of(filters), is_attempts=deliveries)
        if what is not None:
            with installation.api() as api:
                wanted = wanted.narrowed(api, what, namespace or api.namespace)
        view = LiveView(wanted, as_json=as_json, count=count, everything=everything)
        _run(view, settings)


def _run(view: LiveView, settings: object) -> None:
    from penstock.kafka.topic_ends import KafkaAway
    from penstock.settings import Settings

    assert isinstance(settings, Settings)  # noqa: S101  # typed loosely to keep start-up light
    try:
        view.run(settings)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except KafkaAway as away:
        raise UserError(f"Kafka cannot be read: {away}.") from None
