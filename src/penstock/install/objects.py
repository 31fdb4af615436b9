"""What the objects of an installation have in common: their names, labels and the order they are applied in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import SYSTEM_NAMESPACE

PART_OF = "app.kubernetes.io/part-of"
LABELS = {PART_OF: "penstock"}


@dataclass(frozen=True)
class Manifest:
    """One object, and the choices it depends on."""

    obj: Obj
    choices: tuple[str, ...] = ()
    """Attributes of `Values` that must all hold (`console.enabled`); without any it is always there."""
    once: bool = False
    """Whether the object is the user's once it exists."""


def metadata(name: str, *, namespaced: bool = True, labels: dict[str, str] | None = None, **more: Any) -> Obj:
    """The metadata of an object of ours."""
    place = {"namespace": SYSTEM_NAMESPACE} if namespaced else {}
    return {"name": name, **place, "labels": {**LABELS, **(labels or {})}, **more}


def role_labels(role: str) -> dict[str, str]:
    """The labels of a role's Pods."""
    return {"app.kubernetes.io/name": f"penstock-{role}", **LABELS}


def selector(role: str) -> dict[str, str]:
    """What of them selects."""
    return {"app.kubernetes.io/name": f"penstock-{role}"}
