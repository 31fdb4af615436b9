"""The `penstock` command. One module per command or group of commands; each is registered here and nowhere else.

Heavy libraries are imported inside the commands, so that `penstock version` and completion answer at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import (
    backtest,
    conformance,
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
from penstock.cli import open as opening
from penstock.cli import status as doctor
from penstock.cli import status as version

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
        typer.Option("--version", help="Print the versions and exit.", callback=version.print_and_exit, is_eager=True),
    ] = False,
) -> None:
    """Brokers, Triggers, Channels and Subscriptions that route CloudEvents: durable, without Kubernetes."""


RUN = "Run penstock"
EVENTS = "Send and watch events"
ROUTES = "Operate Triggers and Subscriptions"
HISTORY = "Look back and deliver again"
OBJECTS = "Objects of the API"
ACCESS = "Access"
ROLES = "Roles, one process each"

for name, command, panel in (
    ("dev", dev.dev, RUN),
    ("open", opening.open_console, RUN),
    ("status", status.status, RUN),
    ("doctor", doctor.doctor, RUN),
    ("topics", topics.topics, RUN),
    ("install", install.install, RUN),
    ("version", version.version, RUN),
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
    ("deadletters", replays.deadletters, HISTORY),
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
