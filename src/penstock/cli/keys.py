"""`penstock keys`: API keys by which senders are let in to a Broker."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.cli.output import say
from penstock.runtime.times import rfc3339, rfc3339_of

if TYPE_CHECKING:
    from penstock.kube.kinds import Obj
    from penstock.operations.cluster_api import ClusterApi, Resource
    from penstock.resources.api_keys import StoredKey

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
    from penstock.ingress.authorization import PREFIX, digest_of
    from penstock.operations.installation import find
    from penstock.resources.api_keys import StoredKey, stored_keys
    from penstock.runtime.errors import UserError

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        keys = stored_keys(obj)
        if any(one.name == key for one in keys):
            raise UserError(
                f"{broker} has a key {key} already.", f"Revoke it first: penstock keys revoke {broker} {key}"
            )
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
    from penstock.resources.api_keys import is_closed, stored_keys

    with problems(), find(data_dir, kubeconfig).api() as api:
        _, obj = _broker(api, broker, namespace)
    keys = stored_keys(obj)
    if not keys and not as_json:
        typer.echo(closed_without_keys(broker) if is_closed(obj) else f"{broker} has no keys, and asks for none.")
    for key in keys:
        say(json.dumps(_told(key)) if as_json else line_of(key, time.time()))


def line_of(key: StoredKey, now: float) -> str:
    """A key for people: its name, its end, its limits."""
    ends = "never" if key.expires is None else rfc3339_of(int(key.expires))
    state = "ended" if key.expires is not None and key.expires <= now else "ends"
    rates = ((key.events_per_second, "events/s"), (key.bytes_per_second, "bytes/s"))
    limits = [f"{rate:,.3f}".rstrip("0").rstrip(".") + f" {unit}" for rate, unit in rates if rate is not None]
    return "  ".join([key.name, f"{state} {ends}", *limits])


def closed_without_keys(broker: str) -> str:
    """The message about a Broker that lost its last key."""
    return (
        f"{broker} has no keys left: it accepts no events that need a key. "
        f"Make one: penstock keys create {broker} NAME. Or let everybody send again: penstock keys open {broker}"
    )


def _told(key: StoredKey) -> dict[str, object]:
    """A key for programs."""
    return {
        "name": key.name,
        "created": key.created,
        "expires": None if key.expires is None else rfc3339_of(int(key.expires)),
        "eventsPerSecond": key.events_per_second,
        "bytesPerSecond": key.bytes_per_second,
    }


@app.command("revoke")
def revoke(
    broker: BrokerArgument,
    key: KeyArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """End a key. When the last has ended, the address stays closed."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.resources.api_keys import stored_keys
    from penstock.runtime.errors import UserError

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        keys = stored_keys(obj)
        left = [one for one in keys if one.name != key]
        if len(left) == len(keys):
            raise UserError(f"{broker} has no key {key}.", f"See: penstock keys list {broker}")
        _write(api, resource, obj, left)
    typer.echo(f"The key {key} of {broker} has ended.")
    if not left:
        typer.echo(closed_without_keys(broker))


@app.command("open")
def open_to_all(
    broker: BrokerArgument,
    *,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """End every key and let everybody send again whom nothing else keeps out."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        _write(api, resource, obj, None)
    typer.echo(f"{broker} asks for no keys any more.")


def _broker(api: ClusterApi, name: str, namespace: str | None) -> tuple[Resource, Obj]:
    from penstock.cli.names import look_up

    return look_up(api, name, namespace or api.namespace, KINDS)


def _write(api: ClusterApi, resource: Resource, obj: Obj, keys: list[StoredKey] | None) -> None:
    """Gives the Broker these keys; none at all closes it, None opens it to everybody."""
    from penstock.resources.api_keys import ANNOTATION, annotation_of

    metadata = obj["metadata"]
    written = {ANNOTATION: None if keys is None else annotation_of(keys)}
    # What others changed meanwhile is not undone: a key that they revoked would hold again.
    api.annotate(resource, metadata["namespace"], metadata["name"], written, version=metadata["resourceVersion"])
