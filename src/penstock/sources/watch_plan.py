"""What an ApiServerSource watches, and the event for each change.

`KnownObjects` remembers the objects of one watch, so that each change becomes the right type of event: an object that
begins to match the label selector is added, one that stops is deleted. After a watch was interrupted for too long, a
new list is compared with the known objects, so that no change is lost.
"""

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
        """Whether the label selector selects the object."""
        return selector_matches(self.kind.selector, obj["metadata"].get("labels"))


@dataclass(frozen=True)
class WatchPlan:
    """An ApiServerSource with its resolved sink, its selected namespaces and its parsed filters."""

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
        namespaces: tuple[str | None, ...] = (None,) if self.source.everywhere else self.namespaces
        return tuple(WatchedObjects(kind, namespace) for kind in self.source.resources for namespace in namespaces)


def event_of(plan: WatchPlan, change: Change, obj: Obj, plural: str) -> CloudEvent | None:
    """The event of a change; None where the source does not select the object."""
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


ObjectChange = tuple[Change, Obj]


class KnownObjects:
    """The objects of one watch that the source selects."""

    def __init__(self, chosen: Callable[[Obj], bool]) -> None:
        self._chosen = chosen
        self._objects: dict[str, Obj] | None = None
        """By uid, without their content; None until the first list."""

    def listed(self, objects: Iterable[Obj]) -> list[ObjectChange]:
        """The changes since the last list; none for the first one."""
        fresh = {_uid(obj): obj for obj in objects if self._chosen(obj)}
        before, self._objects = self._objects, {uid: _outline(obj) for uid, obj in fresh.items()}
        return [] if before is None else list(_differences(before, fresh))

    def changed(self, kind: str, obj: Obj) -> ObjectChange | None:
        """The change for the source of an event of the watch (`ADDED`, `MODIFIED`, `DELETED`), if it is one."""
        known, uid = self._objects if self._objects is not None else {}, _uid(obj)
        if kind == "DELETED" or not self._chosen(obj):
            return None if known.pop(uid, None) is None else ("delete", obj)
        change: Change = "update" if uid in known else "add"
        known[uid] = _outline(obj)
        return change, obj


def _differences(before: Mapping[str, Obj], now: Mapping[str, Obj]) -> Iterator[ObjectChange]:
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
