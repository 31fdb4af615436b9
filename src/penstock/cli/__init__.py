"""The `penstock` command. One module per command or group of commands; each is registered here and nowhere else.

Heavy libraries are imported inside the commands, so that `penstock --help` and completion in the shell are fast.
A unit test checks that.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import (
    backtest,
    conformance,
    dead_letters,
    dev,
    events,
    examples,
    explain,
    install,
    keys,
    kubeconfig,
    lag,
    listen,
    objects,
    open_console,
    pause,
    replays,
    roles,
    secrets,
    send,
    sql,
    status,
    tail,
    top,
    topics,
    trace,
    verify,
)

app = typer.Typer(
    name="penstock",
    help="Brokers, Triggers, Channels and Subscriptions that route CloudEvents: durable, without Kubernetes.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def penstock(
    shows_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the versions and exit.", callback=status.print_version_and_exit, is_eager=True
        ),
    ] = False,
) -> None:
    """Brokers, Triggers, Channels and Subscriptions that route CloudEvents: durable, without Kubernetes."""


RUN = "Run penstock"
EVENTS = "Send and watch events"
ROUTES = "Operate Triggers and Subscriptions"
HISTORY = "History and replay"
OBJECTS = "Objects of the API"
ACCESS = "Access"
ROLES = "Roles, one process each"

for name, command, panel in (
    ("dev", dev.dev, RUN),
    ("open", open_console.open_console, RUN),
    ("status", status.status, RUN),
    ("doctor", status.doctor, RUN),
    ("topics", topics.topics, RUN),
    ("install", install.install, RUN),
    ("version", status.version, RUN),
    ("send", send.send, EVENTS),
    ("listen", listen.listen, EVENTS),
    ("tail", tail.tail, EVENTS),
    ("explain", explain.explain, EVENTS),
    ("top", top.top, ROUTES),
    ("lag", lag.lag, ROUTES),
    ("pause", pause.pause, ROUTES),
    ("resume", pause.resume, ROUTES),
    ("events", events.events, HISTORY),
    ("trace", trace.trace, HISTORY),
    ("sql", sql.sql, HISTORY),
    ("deadletters", dead_letters.deadletters, HISTORY),
    ("redrive", replays.redrive, HISTORY),
    ("replay", replays.replay, HISTORY),
    ("backtest", backtest.backtest, HISTORY),
    ("verify", verify.verify, HISTORY),
    ("get", objects.get, OBJECTS),
    ("apply", objects.apply, OBJECTS),
    ("delete", objects.delete, OBJECTS),
    ("kubeconfig", kubeconfig.kubeconfig, ACCESS),
):
    app.command(name, rich_help_panel=panel)(command)
for name, group, panel in (
    ("create", objects.create, OBJECTS),
    ("keys", keys.app, ACCESS),
    ("secrets", secrets.app, ACCESS),
    ("conformance", conformance.app, RUN),
):
    app.add_typer(group, name=name, rich_help_panel=panel)
roles.add_to(app, ROLES)
examples.add_to(app)
