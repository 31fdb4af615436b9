"""The gate of SinkBindings: an object that one is for has the sink in its Pod template from the moment it is stored.

So a Deployment need not roll out twice, and a Job, whose template never changes, is bound at all. The sink is the one
that the controller has found and written into the SinkBinding's status.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.apiserver.documents import Obj, decode
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.admission import AdmissionRequest
from penstock.resources.resolution import Address
from penstock.resources.sources.sinkbinding.environment import Environment, bound, environment_of
from penstock.resources.sources.sinkbinding.model import SinkBinding

RESOURCE = "sinkbindings.sources.knative.dev"


class BindingGate:
    """Binds objects as they are created, and when their template is changed."""

    def __init__(self) -> None:
        self._bindings: dict[tuple[str, str], Obj] = {}

    def load(self, bindings: Iterable[Obj]) -> None:
        """The SinkBindings as stored."""
        self._bindings = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in bindings}

    def follow(self, changes: list[Change]) -> None:
        """Takes in changed SinkBindings; the mapping is replaced as a whole, since the writer's thread reads it."""
        for change in changes:
            if change.resource == RESOURCE:
                others = dict(self._bindings)
                others.pop((change.namespace, change.name), None)
                if change.type != "DELETED":
                    others[change.namespace, change.name] = decode(change.body)
                self._bindings = others

    def default(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> Obj:
        """The object with the sink of every SinkBinding that is for it."""
        bindings = self._bindings
        if not bindings or not _is_new(obj, old):
            return obj
        for (namespace, _), binding in bindings.items():
            if namespace == occasion.namespace:
                environment = _environment_for(obj, binding, occasion)
                obj = obj if environment is None else bound(obj, environment)
        return obj

    def validate(self, obj: Obj, old: Obj | None, occasion: AdmissionRequest) -> None:
        """Nothing is refused."""


def _is_new(obj: Obj, old: Obj | None) -> bool:
    """Whether the template is one that nobody has seen; what is stored is the controller's to change."""
    template = (obj.get("spec") or {}).get("template") if isinstance(obj.get("spec"), dict) else None
    if not isinstance(template, dict):
        return False
    return old is None or template != (old.get("spec") or {}).get("template")


def _environment_for(obj: Obj, stored: Obj, occasion: AdmissionRequest) -> Environment | None:
    if stored["metadata"].get("deletionTimestamp"):
        return None
    binding = SinkBinding.read(stored)
    subject, sink = binding.subject, Address.read(stored.get("status") or {}, "sink")
    same_kind = (subject.group, subject.kind) == (occasion.kind.group, occasion.kind.kind)
    return environment_of(sink, binding.overrides) if same_kind and sink is not None and subject.has(obj) else None
