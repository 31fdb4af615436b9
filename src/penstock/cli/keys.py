"""`penstock keys`: API keys of a Broker, which senders authenticate with."""

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

app = typer.Typer(help="API keys of a Broker, which senders authenticate with.", no_args_is_help=True)

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
    days: Annotated[float, typer.Option(min=0.001, help="Days until it expires.")] = 90.0,
    events: Annotated[float | None, typer.Option(min=0.001, help="Maximum events per second.")] = None,
    size: Annotated[float | None, typer.Option("--bytes", min=1, help="Maximum bytes per second.")] = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Create a key and print it. It is shown only once: only its digest is stored.

    From the first key on, the Broker accepts events only from senders with a key.
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
                f"Broker {broker} already has a key {key}.", f"Revoke it first: penstock keys revoke {broker} {key}"
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
    """List the keys with their expiry and limits."""
    import json

    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.resources.api_keys import is_closed, stored_keys

    with problems(), find(data_dir, kubeconfig).api() as api:
        _, obj = _broker(api, broker, namespace)
    keys = stored_keys(obj)
    if not keys and not as_json:
        typer.echo(
            closed_without_keys(broker) if is_closed(obj) else f"Broker {broker} has no keys and does not require one."
        )
    for key in keys:
        say(json.dumps(as_data(key)) if as_json else line_of(key, time.time()))


def line_of(key: StoredKey, now: float) -> str:
    """A key as a line of text: name, expiry, limits."""
    ends = "never" if key.expires is None else rfc3339_of(int(key.expires))
    state = "expired" if key.expires is not None and key.expires <= now else "expires"
    rates = ((key.events_per_second, "events/s"), (key.bytes_per_second, "bytes/s"))
    limits = [f"{rate:,.3f}".rstrip("0").rstrip(".") + f" {unit}" for rate, unit in rates if rate is not None]
    return "  ".join([key.name, f"{state} {ends}", *limits])


def closed_without_keys(broker: str) -> str:
    """The message about a Broker that lost its last key."""
    return (
        f"Broker {broker} has no keys left and still requires one. "
        f"Create one: penstock keys create {broker} NAME. Or stop requiring keys: penstock keys open {broker}"
    )


def as_data(key: StoredKey) -> dict[str, object]:
    """A key for JSON."""
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
    """Revoke a key. After the last one, the Broker still requires a key."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find
    from penstock.resources.api_keys import stored_keys
    from penstock.runtime.errors import UserError

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        keys = stored_keys(obj)
        left = [one for one in keys if one.name != key]
        if len(left) == len(keys):
            raise UserError(f"Broker {broker} has no key {key}.", f"List its keys: penstock keys list {broker}")
        _write(api, resource, obj, left)
    typer.echo(f"Key {key} of Broker {broker} has been revoked.")
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
    """Revoke all keys and stop requiring keys. EventPolicies still apply."""
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems(), find(data_dir, kubeconfig).api() as api:
        resource, obj = _broker(api, broker, namespace)
        _write(api, resource, obj, None)
    typer.echo(f"Broker {broker} no longer requires a key.")


def _broker(api: ClusterApi, name: str, namespace: str | None) -> tuple[Resource, Obj]:
    from penstock.cli.names import look_up

    return look_up(api, name, namespace or api.namespace, KINDS)


def _write(api: ClusterApi, resource: Resource, obj: Obj, keys: list[StoredKey] | None) -> None:
    """Stores the keys of the Broker; an empty list still requires a key, None does not."""
    from penstock.resources.api_keys import ANNOTATION, annotation_of

    metadata = obj["metadata"]
    written = {ANNOTATION: None if keys is None else annotation_of(keys)}
    # Bound to the version: a concurrent change must not be undone, or a revoked key would be valid again.
    api.annotate(resource, metadata["namespace"], metadata["name"], written, version=metadata["resourceVersion"])
