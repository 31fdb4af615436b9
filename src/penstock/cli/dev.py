"""`penstock dev`: the whole stack in the foreground."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import SetOption, StartDataDirOption

if TYPE_CHECKING:
    from penstock.cli.terminal import StackScreen
    from penstock.settings import Settings

USUAL_PORT = 9000
"""Of the subscriber in the first commands."""
LINK_SECONDS = 3600
"""How long the sign-in link of the console is valid."""


def dev(
    *,
    data_dir: StartDataDirOption = None,
    port: Annotated[
        int | None, typer.Option(help="Port of the ingress. 0: free ports for everything. (default: 8080)")
    ] = None,
    api_port: Annotated[int | None, typer.Option(help="Port of the Kubernetes API. (default: 8443)")] = None,
    kafka_port: Annotated[int | None, typer.Option(help="Port of the embedded Kafka. (default: 19092)")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of the metrics. (default: 9090)")] = None,
    console_port: Annotated[int | None, typer.Option(help="Port of the console. (default: 8081)")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. (default: 127.0.0.1)")] = None,
    insecure_open: Annotated[
        bool | None, typer.Option("--insecure-open", help="Let everyone who reaches --host send events.")
    ] = None,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="Use this Kafka instead of starting one.")
    ] = None,
    spark_master: Annotated[str | None, typer.Option(help="Use this Spark cluster instead of a local session.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Use this cluster's API instead of starting the embedded one.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Partitions of the topics, fixed at the first start. (default: 4)")
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Folder of downloaded jars. (default: the user's cache)")
    ] = None,
    assignments: SetOption = None,
    verbose: Annotated[bool | None, typer.Option("--verbose", "-v", help="Show the log of every component.")] = None,
) -> None:
    """Start the whole stack and stay in the foreground; Ctrl-C stops it.

    Settings come from these flags, then PENSTOCK_* variables, then penstock.toml.
    """
    from penstock.cli.terminal import problems
    from penstock.operations.settings_sources import load

    with problems():
        settings = load(
            assignments,
            data_dir=data_dir,
            port=port,
            api_port=api_port,
            kafka_port=kafka_port,
            metrics_port=metrics_port,
            console_port=console_port,
            host=host,
            insecure_open=insecure_open,
            kafka=kafka,
            spark_master=spark_master,
            kubeconfig=kubeconfig,
            partitions=partitions,
            cache_dir=cache_dir,
            verbose=verbose,
        )
        _run(settings)


def _run(settings: Settings) -> None:
    import asyncio
    import signal

    from penstock.cli.terminal import StackScreen
    from penstock.engine import stack

    screen = StackScreen()

    async def until_stopped(prepared: stack.Prepared) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signum, stop.set)
        linking = asyncio.create_task(_print_link(prepared.settings, screen))
        try:
            await stack.run(prepared, screen, stop)
        finally:
            linking.cancel()

    try:
        asyncio.run(until_stopped(stack.prepare(settings, screen)))
    except KeyboardInterrupt:  # before anything was started
        raise typer.Exit(130) from None
    finally:
        screen.stopped()


async def _print_link(settings: Settings, screen: StackScreen) -> None:
    """Prints a link that signs the administrator in, on a terminal only: it must not end in a log."""
    import asyncio

    from penstock.operations.login_link import login_link, token_in
    from penstock.runtime.errors import UserError

    def link() -> str:
        token = token_in(settings.kubeconfig or settings.data_dir / "kubeconfig")
        return login_link(settings, token, seconds=LINK_SECONDS)

    if not screen.is_terminal:
        return
    await screen.console_ready.wait()
    try:
        screen.login(await asyncio.to_thread(link))
    except UserError as problem:
        screen.notice(str(problem))


def first_commands(settings: Settings, program: str, port: int, *, is_alone: bool) -> list[str]:
    """The commands that a start prints: a Broker, a subscriber, a Trigger, an event; --data-dir if other stacks run."""
    where = "" if is_alone else f" --data-dir {shlex.quote(str(settings.data_dir))}"
    at = "" if port == USUAL_PORT else f" --port {port}"
    return [
        f"{program} create broker{where}",
        f"{program} listen --count 1{at} &",
        f"{program} create trigger greetings --subscriber http://127.0.0.1:{port}/{where}",
        f'{program} send \'{{"hello": "world"}}\' --watch{where}',
    ]


def program() -> str:
    """How to call this program in a shell: by name if PATH finds it, otherwise by its path."""
    here = Path(sys.argv[0])
    found = shutil.which("penstock")
    if here.name != "penstock":
        here = Path(sys.executable).with_name("penstock")
    if found is not None and Path(found).resolve() == here.resolve():
        return "penstock"
    return shlex.quote(str(here.absolute()))


def free_port() -> int:
    """A free port for a subscriber, preferably the usual one."""
    for port in (USUAL_PORT, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    return USUAL_PORT
