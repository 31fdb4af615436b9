"""`penstock create`, `apply`, `get` and `delete`: objects of the Kubernetes API, without kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.names import completion_of
from penstock.cli.options import DataDirOption, FilterOption, JsonOption, KubeconfigOption, NamespaceOption
from penstock.cli.output import say
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.operations.cluster_api import ClusterApi, Resource

READY_SECONDS = 60.0

RETRIES = {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}
"""What a Broker without delivery options of its own gets, for a dead letter sink that is given without retries."""

RetryOption = Annotated[
    int | None,
    typer.Option("--retry", min=0, help="Attempts after the first. (default with a dead letter sink: 10)"),
]
SinkOption = Annotated[
    str | None,
    typer.Option(
        "--dead-letter-sink", help="URL that gets events that cannot be delivered; without it they are dropped."
    ),
]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is Ready.")]
ManifestOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="File or folder with objects in YAML or JSON; - is standard input.")
]

create = typer.Typer(help="Create a Broker, Trigger, Channel or Subscription.", no_args_is_help=True)


@create.command("broker")
def create_broker(
    name: Annotated[str, typer.Argument(help="Its name.")] = "default",
    *,
    dead_letter_sink: SinkOption = None,
    retry: RetryOption = None,
    wait: WaitOption = True,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a Broker; of one that exists, change only what the options name."""
    spec = delivery_of(dead_letter_sink, retry)
    _make("Broker", name, spec, wait=wait, namespace=namespace, chosen=(data_dir, kubeconfig), as_json=as_json)


@create.command("trigger")
def create_trigger(
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    subscriber: Annotated[str, typer.Option("--subscriber", "-s", help="URL that gets the events.")],
    broker: Annotated[
        str, typer.Option("--broker", "-b", help="Its Broker.", autocompletion=completion_of("broker"))
    ] = "default",
    filters: FilterOption = None,
    dead_letter_sink: SinkOption = None,
    retry: RetryOption = None,
    wait: WaitOption = True,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a Trigger; of one that exists, change only what the options name.

    Delivery options of a Trigger replace all those of its Broker, the dead letter sink included.
    """
    from penstock.cli.filtering import filters_of
    from penstock.cli.terminal import problems

    with problems():
        spec: dict[str, Any] = {"broker": broker, "subscriber": {"uri": subscriber}}
        spec |= delivery_of(dead_letter_sink, retry)
        if filters:
            spec["filters"] = filters_of(filters)
    _make("Trigger", name, spec, wait=wait, namespace=namespace, chosen=(data_dir, kubeconfig), as_json=as_json)


@create.command("channel")
def create_channel(
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    wait: WaitOption = True,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a Channel."""
    _make("Channel", name, {}, wait=wait, namespace=namespace, chosen=(data_dir, kubeconfig), as_json=as_json)


@create.command("subscription")
def create_subscription(
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    channel: Annotated[str, typer.Option("--channel", help="Its Channel.", autocompletion=completion_of("channel"))],
    subscriber: Annotated[str, typer.Option("--subscriber", "-s", help="URL that gets the events.")],
    wait: WaitOption = True,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update a Subscription to a Channel."""
    reference = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": channel}
    spec = {"channel": reference, "subscriber": {"uri": subscriber}}
    _make("Subscription", name, spec, wait=wait, namespace=namespace, chosen=(data_dir, kubeconfig), as_json=as_json)


def apply(
    file: ManifestOption = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the objects are Ready.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update the objects of a file (server-side apply)."""
    from penstock.cli.manifests import read_manifests
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems():
        objects = read_manifests(_given(file))
        with find(data_dir, kubeconfig).api() as api:
            for obj in objects:
                _apply_one(api, obj, namespace, wait, as_json)


def get(
    kind: Annotated[str | None, typer.Argument(help="Kind, such as triggers, or KIND/NAME.")] = None,
    name: Annotated[str | None, typer.Argument(help="Name of an object.")] = None,
    *,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="All columns.")] = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML.")] = False,
    kinds: Annotated[bool, typer.Option("--kinds", help="List the kinds.")] = False,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show objects: `penstock get triggers`, `penstock get trigger/greetings --yaml`."""
    from penstock.cli.manifests import document, kinds_lines, table_lines
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems(), find(data_dir, kubeconfig).api() as api:
        if kinds:
            say("\n".join(kinds_lines(api.resources())))
            return
        if kind is None:
            raise UserError("Name a kind, such as: penstock get triggers. --kinds lists the kinds.", exit_code=2)
        word, _, one = kind.partition("/")
        resource, chosen = api.resource(word), name or one
        within = "" if everywhere or not resource.namespaced else namespace or api.namespace
        if as_json or as_yaml:
            found: Any = api.get(resource, within, chosen) if chosen else api.all(resource, within)
            say(document(found, as_yaml=as_yaml))
            return
        lines = table_lines(api.table(resource, within, chosen), wide=wide, everywhere=everywhere)
        say("\n".join(lines) if lines else f"There are no {resource.plural}{f' in {within}' if within else ''}.")


def delete(
    kind: Annotated[str | None, typer.Argument(help="Kind, or KIND/NAME.")] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.")] = None,
    *,
    file: ManifestOption = None,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete an object: `penstock delete trigger/greetings`. Or those of a file."""
    from penstock.cli.manifests import read_manifests
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    with problems():
        word, _, one = (kind or "").partition("/")
        chosen = name or one
        if (file is None) == (not (word and chosen)):
            raise UserError("Name an object, such as trigger/greetings, or a file: --file FILE.", exit_code=2)
        with find(data_dir, kubeconfig).api() as api:
            if file is not None:
                deleted = [(api.resource_of(obj), obj["metadata"]) for obj in reversed(read_manifests(file))]
            else:
                deleted = [(api.resource(word), {"name": chosen})]
            for resource, metadata in deleted:
                within = str(metadata.get("namespace") or namespace or api.namespace)
                existed = api.delete(resource, within, metadata["name"])
                label = f"{resource.kind.lower()}/{metadata['name']}"
                if as_json:
                    say(json.dumps({"kind": resource.kind, "name": metadata["name"], "deleted": existed}))
                else:
                    say(f"{label} {'deleted' if existed else 'not found'}")


def _given(file: Path | None) -> Path:
    if file is None:
        raise UserError("--file is required: --file FILE, or --file - for standard input.", exit_code=2)
    return file


def _make(
    kind: str,
    name: str,
    spec: dict[str, Any],
    *,
    wait: bool,
    namespace: str | None,
    chosen: tuple[Path | None, Path | None],
    as_json: bool,
) -> None:
    from penstock.cli.terminal import problems
    from penstock.operations.installation import find

    group = "eventing" if kind in ("Broker", "Trigger") else "messaging"
    obj = {"apiVersion": f"{group}.knative.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    with problems(), find(*chosen).api() as api:
        resource = api.resource_of(obj)
        stored = api.find(resource, namespace or api.namespace, name)
        if stored is None:
            _apply_one(api, {**obj, "spec": with_retries(spec, {})}, namespace, wait, as_json)
        else:
            _change(api, resource, stored, with_retries(spec, stored.get("spec") or {}), wait=wait, as_json=as_json)


def delivery_of(dead_letter_sink: str | None, retry: int | None) -> dict[str, Any]:
    """The part of a spec that the options for deliveries name."""
    sink = {"deadLetterSink": {"uri": dead_letter_sink}} if dead_letter_sink else {}
    retries = {} if retry is None else {"retry": retry}
    return {"delivery": {**sink, **retries}} if sink or retries else {}


def with_retries(spec: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """The spec with retries where it brings a dead letter sink: a sink alone would get every event that failed once."""
    delivery = spec.get("delivery") or {}
    if "deadLetterSink" not in delivery or "retry" in delivery or (stored.get("delivery") or {}).get("retry"):
        return spec
    return {**spec, "delivery": {**RETRIES, **delivery}}


def changes_of(spec: dict[str, Any], stored: dict[str, Any], path: str = "spec") -> list[str]:
    """A line for every field that the new spec changes: `spec.delivery.retry: 3 -> 10`."""
    lines: list[str] = []
    for field, wanted in spec.items():
        before, where = stored.get(field), f"{path}.{field}"
        if isinstance(wanted, dict) and isinstance(before, dict):
            lines += changes_of(wanted, before, where)
        elif wanted != before:
            lines.append(f"{where}: {'not set' if before is None else _short(before)} -> {_short(wanted)}")
    return lines


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _change(
    api: ClusterApi, resource: Resource, stored: dict[str, Any], spec: dict[str, Any], *, wait: bool, as_json: bool
) -> None:
    """Changes the fields that the options name of an object that exists, and prints which these are."""
    metadata, lines = stored["metadata"], changes_of(spec, stored.get("spec") or {})
    changed = api.change_spec(resource, metadata["namespace"], metadata["name"], spec) if lines else stored
    if wait:
        changed = wait_ready(api, resource, changed)
    if as_json:
        say(json.dumps(changed))
        return
    what, ready = "changed" if lines else "unchanged", " and ready" if wait else ""
    say(f"{resource.kind.lower()}/{metadata['name']} {what}{ready}")
    for line in lines:
        say(f"  {line}")


def _apply_one(api: ClusterApi, obj: dict[str, Any], namespace: str | None, wait: bool, as_json: bool) -> None:
    resource = api.resource_of(obj)
    within = str(obj["metadata"].get("namespace") or namespace or api.namespace)
    if resource.namespaced:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": within}}
    applied, created = api.apply(resource, within, obj)
    if wait:
        applied = wait_ready(api, resource, applied)
    if as_json:
        say(json.dumps(applied))
        return
    ready = " and ready" if wait else ""
    say(f"{resource.kind.lower()}/{applied['metadata']['name']} {'created' if created else 'applied'}{ready}")


def wait_ready(api: ClusterApi, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """The object once it is Ready. Raises UserError if it does not become Ready in time."""
    import time

    from penstock.resources.conditions import READY, find, is_ready

    metadata, deadline = obj["metadata"], time.monotonic() + READY_SECONDS
    while not is_ready(obj):
        if time.monotonic() > deadline:
            ready = find((obj.get("status") or {}).get("conditions"), READY) or {}
            why = ready.get("message") or ready.get("reason") or "its status is empty"
            name = f"{resource.kind} {metadata['namespace']}/{metadata['name']}"
            raise UserError(f"{name} is not Ready after {READY_SECONDS:.0f} s: {why}.")
        time.sleep(0.1)
        obj = api.get(resource, metadata["namespace"], metadata["name"])
    return obj
