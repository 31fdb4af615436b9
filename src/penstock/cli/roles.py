"""A command for each role (`penstock ingress`, ...), all with the same options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import SetOption, StartDataDirOption
from penstock.engine.roles.table import ROLES, Role


def add_to(app: typer.Typer, panel: str) -> None:
    """Adds a command for each role."""
    for role in ROLES:
        app.command(role.name, help=_help(role), rich_help_panel=panel)(_command(role))


def _help(role: Role) -> str:
    return (
        f"{role.purpose}\n\nOne role as a process of its own: logs to standard output, answers /livez, /readyz and "
        f"/metrics on port {role.health_port} (--health-port), stops gracefully on SIGTERM. Settings come from these "
        "flags, then PENSTOCK_* variables, then penstock.toml."
    )


def _command(role: Role) -> Callable[..., None]:
    def command(
        *,
        data_dir: StartDataDirOption = None,
        host: Annotated[str | None, typer.Option(help="Address to listen on. (default: 127.0.0.1)")] = None,
        insecure_open: Annotated[
            bool | None, typer.Option("--insecure-open", help="Let everyone who reaches --host send events.")
        ] = None,
        port: Annotated[int | None, typer.Option(help="Port of the ingress. (default: 8080)")] = None,
        api_port: Annotated[int | None, typer.Option(help="Port of the Kubernetes API. (default: 8443)")] = None,
        console_port: Annotated[int | None, typer.Option(help="Port of the console. (default: 8081)")] = None,
        health_port: Annotated[int | None, typer.Option(help="Port of the probes. 0: a free one.")] = None,
        kafka: Annotated[str | None, typer.Option(metavar="HOST:PORT,…", help="The Kafka to use.")] = None,
        spark_master: Annotated[
            str | None, typer.Option(help="Use this Spark cluster instead of a local session.")
        ] = None,
        kubeconfig: Annotated[
            Path | None, typer.Option(help="Use this cluster's API; in-cluster: the ServiceAccount of this Pod.")
        ] = None,
        partitions: Annotated[int | None, typer.Option(help="Partitions of the topics. (default: 4)")] = None,
        cache_dir: Annotated[
            Path | None, typer.Option(help="Folder of downloaded jars. (default: the user's cache)")
        ] = None,
        assignments: SetOption = None,
        verbose: Annotated[bool | None, typer.Option("--verbose", "-v", help="Log at debug level.")] = None,
    ) -> None:
        from penstock.cli.terminal import problems
        from penstock.operations.settings_sources import load

        with problems():
            settings = load(
                assignments,
                data_dir=data_dir,
                host=host,
                insecure_open=insecure_open,
                port=port,
                api_port=api_port,
                console_port=console_port,
                health_port=health_port,
                kafka=kafka,
                spark_master=spark_master,
                kubeconfig=kubeconfig,
                partitions=partitions,
                cache_dir=cache_dir,
                verbose=verbose,
            )
            from penstock.engine.roles import standalone

            raise typer.Exit(standalone.run(role, settings))

    return command
