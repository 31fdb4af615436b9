"""The commands of this room by their names."""

from __future__ import annotations

import typer

from penstock.cli.objects import commands as objects
from penstock.cli.operate import explain, listen, send, tail
from penstock.cli.routes import lag, pause, top


def add_to(app: typer.Typer) -> None:
    """Registers them."""
    app.command("send")(send.send)
    app.command("listen")(listen.listen)
    app.command("tail")(tail.tail)
    app.command("top")(top.top)
    app.command("lag")(lag.lag)
    app.command("explain")(explain.explain)
    app.command("pause")(pause.pause)
    app.command("resume")(pause.resume)
    app.add_typer(objects.create, name="create")
    app.command("apply")(objects.apply)
    app.command("get")(objects.get)
    app.command("delete")(objects.delete)
