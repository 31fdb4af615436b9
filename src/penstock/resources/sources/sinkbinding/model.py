"""A SinkBinding as the controllers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources import label_selector
from penstock.resources.admission import Obj
from penstock.resources.metadata import ObjectIdentity

FINALIZER = "sinkbindings.sources.knative.dev"


@dataclass(frozen=True)
class Subject:
    """The objects whose Pods are told: one by its name, or all with some labels."""

    api_version: str
    kind: str
    namespace: str
    name: str
    selector: Mapping[str, Any] | None

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def has(self, obj: Obj) -> bool:
        """Whether the object, which is of this kind, is one of them."""
        metadata = obj.get("metadata") or {}
        if self.namespace != (metadata.get("namespace") or self.namespace):
            return False
        if self.name:
            return bool(metadata.get("name") == self.name)
        return self.selector is not None and label_selector.matches(self.selector, metadata.get("labels"))


@dataclass(frozen=True)
class SinkBinding:
    """What is asked for."""

    identity: ObjectIdentity
    subject: Subject
    sink: dict[str, Any]
    overrides: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> SinkBinding:
        """The SinkBinding behind a stored object."""
        identity, spec = ObjectIdentity.read(obj), obj.get("spec") or {}
        subject = spec.get("subject") or {}
        return cls(
            identity,
            Subject(
                str(subject.get("apiVersion") or ""),
                str(subject.get("kind") or ""),
                str(subject.get("namespace") or identity.namespace),
                str(subject.get("name") or ""),
                subject.get("selector"),
            ),
            dict(spec.get("sink") or {}),
            spec.get("ceOverrides"),
        )
