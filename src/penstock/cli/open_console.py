"""`penstock open`: opens the console of the running stack in the browser, signed in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import DataDirOption

LINK_SECONDS = 600


def open_console(
    path: Annotated[str, typer.Argument(metavar="[PAGE]", help="A page, such as routes or stack.")] = "",
    *,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link only.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Sign in as the user of this kubeconfig.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN|@FILE",
            help="Sign in with this token; @FILE reads it. Other users of this machine can see command lines.",
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Open the console of the running stack, signed in as its administrator, and print the link.

    The link works once, within ten minutes.
    """
    import webbrowser

    from penstock.cli.sending_target import given_token
    from penstock.cli.terminal import problems
    from penstock.operations.installation import of_stack, running_folder
    from penstock.operations.login_link import login_link, token_in
    from penstock.runtime.errors import UserError

    with problems():
        if kubeconfig is not None and token is not None:
            raise UserError("--kubeconfig and --token cannot be combined.", exit_code=2)
        stack = of_stack(running_folder(data_dir))
        if stack.settings is None or stack.kubeconfig is None or not stack.settings.console:
            raise UserError("The stack runs without a console.", "Restart it with console = true.")
        sign_in = given_token(token) if token is not None else token_in(kubeconfig or stack.kubeconfig)
        link = login_link(stack.settings, sign_in, seconds=LINK_SECONDS, page=path)
        typer.echo(link)
        if no_browser or not has_display(os.environ):
            return
        if not webbrowser.open(link):
            raise UserError("No browser was found.", "Open the link above within ten minutes.")


def has_display(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a graphical browser can be opened; on Linux without a display, a text browser would start."""
    return platform in ("darwin", "win32") or any(
        environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    )
