"""Parts of a flow that was longer before, or had Channels of another kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, takewhile

from penstock.controllers.reconcilers.parts import Parts
from penstock.controllers.tracker import Place
from penstock.kube.kinds import Key, Kind, Obj


def behind_the_last(parts: Parts, kind: Kind, key: Key, name: Callable[[str, int], str], length: int) -> list[Place]:
    """Parts numbered beyond the present length, the last first: if deleting ends early, no gap hides the rest."""
    places = ((kind, Key(key.namespace, name(key.name, number))) for number in count(length))
    return list(reversed(list(takewhile(parts.there, places))))


def of_another_kind(references: Iterable[Obj], present: Kind) -> Iterator[Place]:
    """Channels that the last status named and that are not of the present kind."""
    for reference in references:
        kind = Kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if kind != present:
            yield kind, Key(reference.get("namespace", ""), reference.get("name", ""))
