"""`penstock keys`: API keys by which senders are let in to a Broker."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.installation import DataDirOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.cli.operate.names import completion_of

if TYPE_CHECKING:
    from penstock.operations.cluster_api import ClusterApi, Obj, Resource
    from penstock.resources.broker.api_keys import StoredKey

app = typer.Typer(help="API keys by which senders are let in to a Broker.", no_args_is_help=True)

KINDS = ("broker",)
BrokerArgument = Annotated[
    str,
    typer.Argument(metavar="BROKER", help="Name of the Broker.", autocompletion=completion_of(*KINDS)),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Name of the key.")]


@app.command("create")
def create(
    broker: BrokerArgument,
    key: KeyArgument,
    *,
    days: Annotated[float, typer.Option(min=0.001, help="How long it holds.")] = 90.0,
    events: Annotated[float | None, typer.Option(min=0.001, help="Events that it may send in a second.")] = None,
    size: Annotated[float | None, typer.Option("--bytes", min=1, help="Bytes that it may send in a second.")] = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Make a key and print it. It is shown this once; what is kept is its digest.

    The first key closes the address: from then on it takes events only from senders with a key.
    """
    from penstock.cli.terminal import problems
    from penstock.engine.problem import Problem
    from penstock.ingress.senders.keys import PREFIX, digest_of
    from penstock.operations.installation import find
    from penstock.resources.broker.api_keys import StoredKey, stored_keys
    from penstock.timestamps import rfc3339

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        keys = stored_keys(obj)
        if any(one.name == key for one in keys):
            raise Problem(f"{broker} has a key {key} already.", f"Revoke it first: penstock keys revoke {broker} {key}")
        secret = PREFIX + secrets.token_urlsafe(32)
        made = StoredKey(key, digest_of(secret), rfc3339(), round(time.time() + days * 86400), events, size)
        _write(api, resource, obj, [*keys, made])
    typer.echo(secret)


@app.command("list")
def list_keys(
    broker: BrokerArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the keys: their names, ends and limits."""
    import json

    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.resources.broker.api_keys import stored_keys
    from penstock.timestamps import rfc3339_of

    with problems(), find(data_dir, kubeconfig).api() as api:
        keys = stored_keys(_broker(api, broker, namespace)[1])
    for key in keys:
        ends = None if key.expires is None else rfc3339_of(int(key.expires))
        told = {
            "name": key.name,
            "created": key.created,
            "expires": ends,
            "eventsPerSecond": key.events_per_second,
            "bytesPerSecond": key.bytes_per_second,
        }
        if as_json:
            typer.echo(json.dumps(told))
            continue
        limits = [f"{key.events_per_second:g} events/s"] * bool(key.events_per_second)
        limits += [f"{key.bytes_per_second:g} bytes/s"] * bool(key.bytes_per_second)
        state = "ended" if key.expires is not None and key.expires <= time.time() else "ends"
        typer.echo("  ".join([key.name, f"{state} {ends or 'never'}", *limits]))


@app.command("revoke")
def revoke(
    broker: BrokerArgument,
    key: KeyArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """End a key. Without any the address stays closed."""
    from penstock.cli.terminal import problems
    from penstock.engine.problem import Problem
    from penstock.operations.installation import find
    from penstock.resources.broker.api_keys import stored_keys

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        keys = stored_keys(obj)
        left = [one for one in keys if one.name != key]
        if len(left) == len(keys):
            raise Problem(f"{broker} has no key {key}.", f"See: penstock keys list {broker}")
        _write(api, resource, obj, left)
    typer.echo(f"The key {key} of {broker} has ended.")


def _broker(api: ClusterApi, name: str, namespace: str | None) -> tuple[Resource, Obj]:
    from penstock.cli.operate.names import look_up

    return look_up(api, name, namespace or api.namespace, KINDS)


def _write(api: ClusterApi, resource: Resource, obj: Obj, keys: list[StoredKey]) -> None:
    from penstock.resources.broker.api_keys import ANNOTATION, annotation_of

    metadata = obj["metadata"]
    written = {ANNOTATION: annotation_of(keys)}
    # What others changed meanwhile is not undone: a key that they revoked would hold again.
    api.annotate(resource, metadata["namespace"], metadata["name"], written, version=metadata["resourceVersion"])
