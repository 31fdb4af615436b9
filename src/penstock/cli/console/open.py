"""`penstock open`: the console of the running stack in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.installation import DataDirOption


def open_console(
    path: Annotated[str, typer.Argument(metavar="[PAGE]", help="A page, such as routes or stack.")] = "",
    *,
    prints: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Open the console of the stack that runs in a browser, and print its address."""
    import webbrowser

    from penstock.cli.terminal import problems
    from penstock.engine.problem import Problem
    from penstock.operations.installation import of_stack, running_folder

    with problems():
        settings = of_stack(running_folder(data_dir)).settings
        if settings is None or not settings.console:
            raise Problem("This stack has no console.", "Start it with console = true.")
        url = settings.console_url + path.lstrip("/")
        typer.echo(url)
        if not prints and not webbrowser.open(url):
            raise Problem("No browser was found.", "Open the address above in one.")
