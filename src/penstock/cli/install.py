"""`penstock install`: installs penstock into an existing Kubernetes cluster, or prints the manifests."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import SetOption

if TYPE_CHECKING:
    from penstock.install.tls import Tls
    from penstock.install.values import Values


class TlsMode(StrEnum):
    """Where certificates come from."""

    off = "off"
    secret = "secret"  # noqa: S105 — a kind of object
    cert_manager = "cert-manager"


def install(
    *,
    prints: Annotated[bool, typer.Option("--print", help="Print the manifests and change nothing.")] = False,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the cluster. (default: as kubectl)")] = None,
    image: Annotated[str | None, typer.Option(help="The image of every role. (default: penstock:VERSION)")] = None,
    kafka: Annotated[str | None, typer.Option(metavar="HOST:PORT,…", help="The Kafka to use.")] = None,
    assignments: SetOption = None,
    spark_executors: Annotated[
        bool, typer.Option("--spark-executors", help="Let the pipeline start Spark's executors as Pods.")
    ] = False,
    service_monitor: Annotated[
        bool, typer.Option("--service-monitor", help="With a ServiceMonitor for Prometheus' operator.")
    ] = False,
    network_policies: Annotated[bool, typer.Option(help="With NetworkPolicies.")] = True,
    console_pages: Annotated[
        bool, typer.Option("--console/--no-console", help="With the console, the pages for browsers.")
    ] = True,
    api_server_sources: Annotated[
        bool, typer.Option(help="Let the controllers impersonate ServiceAccounts, as ApiServerSources need it.")
    ] = True,
    sink_bindings: Annotated[
        bool,
        typer.Option(help="Let the controllers change workloads, as SinkBindings and ContainerSources need it."),
    ] = True,
    history: Annotated[
        bool, typer.Option("--history", help="With the writer of the history; needs --set history_uri=URI.")
    ] = False,
    tls: Annotated[
        TlsMode, typer.Option(help="Where the certificate of the ingress, console, metrics and probes comes from.")
    ] = TlsMode.off,
    tls_secret: Annotated[
        str | None, typer.Option(metavar="NAME", help="The Secret of the certificate. (default: penstock-tls)")
    ] = None,
    tls_issuer: Annotated[
        str | None,
        typer.Option(metavar="KIND/NAME", help="Issuer that cert-manager uses. (default: ClusterIssuer/penstock)"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Take over fields that other managers own.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Let the API check everything and store nothing.")] = False,
) -> None:
    """Install penstock into an existing Kubernetes cluster, or upgrade it there; `--print` shows the manifests.

    For more options use the Helm chart (deploy/helm).
    """
    from penstock.cli.terminal import console, problems
    from penstock.install.manifests import chosen, text

    with problems():
        values = _values(
            assignments or [],
            image=image,
            kafka=kafka,
            spark_executors=spark_executors,
            service_monitor=service_monitor,
            network_policies=network_policies,
            console=console_pages,
            api_server_sources=api_server_sources,
            sink_bindings=sink_bindings,
            history=history,
            tls=_tls(tls, tls_secret, tls_issuer),
        )
        manifests = chosen(values)
        if prints:
            typer.echo(text(one.obj for one in manifests), nl=False)
            return
        from penstock.install.manifests import Applier

        for obj, done in Applier(kubeconfig).apply(manifests, force=force, dry_run=dry_run):
            where = " (not stored)" if dry_run else ""
            console().print(f"{obj['kind']} {obj['metadata']['name']} {done}{where}")


def _tls(mode: TlsMode, secret: str | None, issuer: str | None) -> Tls:
    """The TLS options. Raises UserError for an invalid issuer."""
    from dataclasses import replace

    from penstock.install.tls import Tls
    from penstock.runtime.errors import UserError

    default = Tls(mode=mode.value)
    kind, _, name = (issuer or "").partition("/")
    if issuer is not None and not (kind and name):
        raise UserError(f"Invalid --tls-issuer {issuer}.", "Write KIND/NAME, such as ClusterIssuer/ours.", exit_code=2)
    return replace(
        default,
        secret=secret or default.secret,
        issuer={"kind": kind, "name": name} if issuer is not None else default.issuer,
    )


def _values(
    assignments: list[str],
    *,
    image: str | None,
    kafka: str | None,
    spark_executors: bool,
    service_monitor: bool,
    network_policies: bool,
    console: bool,
    api_server_sources: bool,
    sink_bindings: bool,
    history: bool,
    tls: Tls,
) -> Values:
    """The values of the installation. Invalid settings are reported as in every other command."""
    import os
    from dataclasses import replace

    from penstock.install.values import Values
    from penstock.operations.settings_sources import resolve
    from penstock.runtime.errors import UserError

    default = Values()
    assigned = {one.partition("=")[0].strip() for one in assignments}
    given = {**default.settings, **({"kafka": kafka} if kafka else {})}
    flags = {name: value for name, value in given.items() if name not in assigned}
    resolved = resolve(flags, assignments, {}, Path(os.devnull))
    if history and "://" not in (resolved.history_uri or ""):
        raise UserError(
            "--history requires a history_uri that every Pod can reach.",
            "Set it: --set history_uri=s3a://bucket/history.",
            exit_code=2,
        )
    settings = resolved.model_dump(mode="json")
    return replace(
        default,
        image=image or default.image,
        settings={name: settings[name] for name in [*flags, *sorted(assigned)]},
        spark_executors=spark_executors,
        service_monitor=service_monitor,
        network_policies=network_policies,
        console=replace(default.console, enabled=console),
        api_server_sources=api_server_sources,
        sink_bindings=sink_bindings,
        history=replace(default.history, enabled=history),
        tls=tls,
    )
