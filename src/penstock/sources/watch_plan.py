"""What an ApiServerSource watches, and the event it makes of a change."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.predicate import Predicate
from penstock.kube.kinds import Obj
from penstock.resources.apiserversource import (
    REFERENCE,
    ApiServerSource,
    Change,
    WatchedKind,
    event_type,
)
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.metadata import controller_of, selector_matches
from penstock.runtime.times import rfc3339

_IDS = uuid.UUID("2c8a5d1e-6b0f-4c55-8f3a-9d2b7e4a1c60")


@dataclass(frozen=True)
class WatchedObjects:
    """Objects of one kind, in one namespace or everywhere."""

    kind: WatchedKind
    namespace: str | None
    """None: everywhere."""

    def has(self, obj: Obj) -> bool:
        """Whether the object has the labels that are asked for."""
        return selector_matches(self.kind.selector, obj["metadata"].get("labels"))


@dataclass(frozen=True)
class WatchPlan:
    """An ApiServerSource with its sink found, its namespaces chosen and its filters read."""

    source: ApiServerSource
    namespaces: tuple[str, ...]
    predicate: Predicate
    sink: ResolvedAddress
    api_url: str

    @property
    def uid(self) -> str:
        """The uid of the ApiServerSource."""
        return self.source.identity.uid

    def watched(self) -> tuple[WatchedObjects, ...]:
        """Everything to watch."""
        places: tuple[str | None, ...] = (None,) if self.source.everywhere else self.namespaces
        return tuple(WatchedObjects(kind, place) for kind in self.source.resources for place in places)


def event_of(plan: WatchPlan, change: Change, obj: Obj, plural: str) -> CloudEvent | None:
    """The event of a change; None where the source leaves such objects out."""
    if not _is_owned(plan.source.owner, obj):
        return None
    event = _event(plan, change, obj, plural)
    if not matches_event(plan.predicate, event):
        return None
    overrides = {name.lower(): value for name, value in plan.source.extensions.items()}
    return CloudEvent({**event.attributes, **overrides}, event.data)


def _event(plan: WatchPlan, change: Change, obj: Obj, plural: str) -> CloudEvent:
    metadata = obj["metadata"]
    namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
    version = f"{metadata.get('uid')}/{metadata.get('resourceVersion')}"
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid5(_IDS, f"{plan.uid}/{version}/{change}")),
        "source": plan.api_url,
        "type": event_type(plan.source.mode, change),
        "subject": f"/apis/{obj['apiVersion']}/namespaces/{namespace}/{plural}/{name}",
        "time": rfc3339(),
        "datacontenttype": "application/json",
        "kind": str(obj["kind"]),
        "apiversion": str(obj["apiVersion"]),
        "name": name,
    }
    if namespace:
        attributes["namespace"] = namespace
    return CloudEvent(attributes, json.dumps(_data(plan.source.mode, obj), separators=(",", ":")).encode())


def _data(mode: str, obj: Obj) -> Obj:
    if mode != REFERENCE:
        return obj
    metadata = obj["metadata"]
    reference = {
        "kind": obj["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "apiVersion": obj["apiVersion"],
    }
    return {name: value for name, value in reference.items() if value}


def _is_owned(owner: tuple[str, str] | None, obj: Obj) -> bool:
    if owner is None:
        return True
    controller = controller_of(dict(obj))
    return controller is not None and all(
        not wanted or controller.get(name) == wanted for name, wanted in zip(("apiVersion", "kind"), owner, strict=True)
    )


# What a watch knows of its objects, so that the source gets the right kind of event for every change. An object that
# gets the labels that are asked for is added, one that loses them is deleted. After a watch that was cut off for too
# long, a new list is compared with what is known, so that nothing is left out.

Told = tuple[Change, Obj]


class KnownObjects:
    """The objects of one watch that the source selects."""

    def __init__(self, chosen: Callable[[Obj], bool]) -> None:
        self._chosen = chosen
        self._objects: dict[str, Obj] | None = None
        """By uid, without what they contain; None until there was a list."""

    def listed(self, objects: Iterable[Obj]) -> list[Told]:
        """What has changed since the last list; of the first one, nothing."""
        fresh = {_uid(obj): obj for obj in objects if self._chosen(obj)}
        before, self._objects = self._objects, {uid: _outline(obj) for uid, obj in fresh.items()}
        return [] if before is None else list(_differences(before, fresh))

    def changed(self, kind: str, obj: Obj) -> Told | None:
        """What a change of a watch (`ADDED`, `MODIFIED`, `DELETED`) is to the source; None: nothing."""
        known, uid = self._objects if self._objects is not None else {}, _uid(obj)
        if kind == "DELETED" or not self._chosen(obj):
            return None if known.pop(uid, None) is None else ("delete", obj)
        change: Change = "update" if uid in known else "add"
        known[uid] = _outline(obj)
        return change, obj


def _differences(before: Mapping[str, Obj], now: Mapping[str, Obj]) -> Iterator[Told]:
    for uid, obj in before.items():
        if uid not in now:
            yield "delete", obj
    for uid, obj in now.items():
        if uid not in before:
            yield "add", obj
        elif _version(obj) != _version(before[uid]):
            yield "update", obj


def _outline(obj: Obj) -> Obj:
    kept = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "labels")
    metadata = {name: obj["metadata"][name] for name in kept if name in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def _uid(obj: Obj) -> str:
    return str(obj["metadata"].get("uid"))


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion"))
