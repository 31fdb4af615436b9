"""The `penstock` command. One module per command or group of commands; each is registered here and nowhere else.

Heavy libraries are imported inside the commands, so that `penstock version` and completion answer at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import conformance, dev, doctor, examples, install, kubeconfig, status, version
from penstock.cli.access import keys, secrets
from penstock.cli.console import open as opening
from penstock.cli.history import backtest, events, sql, trace
from penstock.cli.kafka import topics
from penstock.cli.operate import commands as operate
from penstock.cli.replay import commands as replaying
from penstock.cli.roles import commands as roles

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


app.command("backtest")(backtest.backtest)
app.command("dev")(dev.dev)
app.command("doctor")(doctor.doctor)
app.command("install")(install.install)
app.command("open")(opening.open_console)
app.command("kubeconfig")(kubeconfig.kubeconfig)
app.command("events")(events.events)
app.command("sql")(sql.sql)
app.command("status")(status.status)
app.command("trace")(trace.trace)
app.command("topics")(topics.topics)
app.command("version")(version.version)
app.add_typer(conformance.app, name="conformance")
app.add_typer(keys.app, name="keys")
app.add_typer(secrets.app, name="secrets")
app.command("replay")(replaying.replay)
app.command("deadletters")(replaying.deadletters)
app.command("redrive")(replaying.redrive)
roles.add_to(app)
operate.add_to(app)
examples.add_to(app)
