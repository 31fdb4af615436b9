"""`penstock listen`: a subscriber that prints the events it receives."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, FilterOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.runtime.errors import UserError

DEFAULT_PORT = 9000


def listen(
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port. (default: 9000; a free one with --broker)")
    ] = None,
    *,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker",
            "-b",
            help="Subscribe to this Broker with a temporary Trigger.",
            autocompletion=completion_of("broker"),
        ),
    ] = None,
    filters: FilterOption = None,
    answer: Annotated[
        int, typer.Option("--answer", min=200, max=599, help="HTTP status to respond with, such as 503.")
    ] = 204,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Exit after so many events.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Every attribute on a line of its own.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the events that are sent to this address; Ctrl-C ends it.

    With --broker it creates a Trigger for itself and deletes it at the end.
    """
    from penstock.cli.subscriber import PrintingSubscriber, own_trigger
    from penstock.cli.terminal import problems

    with problems():
        if filters and broker is None:
            raise UserError(
                "--filter requires --broker: otherwise the filters of the existing Trigger apply.", exit_code=2
            )
        chosen = port if port is not None else 0 if broker is not None else DEFAULT_PORT
        listener = PrintingSubscriber(host, chosen, answer=answer, count=count, full=full, as_json=as_json)
        with own_trigger(broker, filters, listener.url, namespace, (data_dir, kubeconfig)):
            asyncio.run(listener.run())
