"""What a watch knows of its objects, so that the source gets the right kind of event for every change.

An object that gets the labels that are asked for is added, one that loses them is deleted. After a watch that was cut
off for too long, a new list is compared with what is known, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.kube.kinds import Obj
from penstock.resources.apiserversource import Change

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
