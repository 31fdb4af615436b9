"""The Triggers that a backtest tries, each with the current Trigger of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.resources.registry import ADMISSION, AdmissionContext, AdmissionDenied
from penstock.resources.trigger import GROUP, KIND, Trigger
from penstock.runtime.errors import UserError
from penstock.settings import Settings

NOWHERE = {"uri": "http://nowhere.invalid/"}
"""Subscriber of a Trigger that names none: it is only tried."""


@dataclass(frozen=True)
class Trial:
    """A Trigger that is tried."""

    namespace: str
    name: str
    broker: str
    """Namespace and name."""
    target: str
    candidate: Route
    present: Route | None
    """The current Trigger of that name, if any."""

    def routes(self, number: int) -> list[Route]:
        """Both as routes; the uid tells them apart."""
        present = [] if self.present is None else [msgspec.structs.replace(self.present, uid=f"p{number}")]
        return [msgspec.structs.replace(self.candidate, uid=f"c{number}"), *present]


def trials_of(
    documents: Iterable[Any], snapshot: Snapshot, settings: Settings, namespace: str = "default"
) -> tuple[Trial, ...]:
    """The Triggers among the documents of a file; other kinds are ignored. Raises UserError."""
    found = tuple(
        _trial(document, snapshot, settings, namespace)
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == KIND
    )
    if not found:
        raise UserError("The file contains no Trigger.", "Use a manifest with kind: Trigger.", exit_code=2)
    return found


def _trial(document: Mapping[str, Any], snapshot: Snapshot, settings: Settings, namespace: str) -> Trial:
    metadata = document.get("metadata")
    written = {**document, "metadata": {"namespace": namespace, **(metadata if isinstance(metadata, Mapping) else {})}}
    trigger = Trigger.read(_admitted(written, settings))
    name = trigger.identity.namespace, trigger.identity.name
    if not trigger.identity.name:
        raise UserError("A Trigger in the file has no name.", "Set metadata.name.", exit_code=2)
    broker = f"{trigger.broker_namespace}/{trigger.broker}"
    targets = [
        target.uid
        for target in snapshot.targets.values()
        if target.kind == "Broker" and (target.namespace, target.name) == (trigger.broker_namespace, trigger.broker)
    ]
    if not targets:
        raise UserError(f"Broker {broker} of Trigger {'/'.join(name)} does not exist.", exit_code=2)
    present = [
        route
        for route in snapshot.routes.values()
        if route.kind == "Trigger" and (route.namespace, route.name) == name and route.target == targets[0]
    ]
    candidate = Route(
        uid="",
        kind="Trigger",
        namespace=name[0],
        name=name[1],
        target=targets[0],
        attributes=trigger.attributes,
        filters=trigger.filters,
    )
    return Trial(*name, broker, targets[0], candidate, present[0] if present else None)


def _admitted(document: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The Trigger as it would be stored. Raises UserError if admission would reject it."""
    spec = document.get("spec")
    if isinstance(spec, Mapping) and not spec.get("subscriber"):
        document = {**document, "spec": {**spec, "subscriber": NOWHERE}}
    ctx = AdmissionContext("", document["metadata"]["namespace"], {}, settings, "CREATE")
    admission = ADMISSION[GROUP, KIND]
    try:
        admitted = admission.default(document, ctx)
        admission.validate(admitted, None, ctx)
    except AdmissionDenied as denied:
        raise UserError(f"The API would reject the Trigger: {denied.message}", exit_code=2) from denied
    return admitted
