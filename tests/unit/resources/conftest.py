"""An admission context as a fresh stack has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.registry import ADMISSION, AdmissionContext, AdmissionDenied, bootstrap_configmaps
from penstock.settings import Settings

Obj = dict[str, Any]


def _context(**changes: Any) -> AdmissionContext:
    settings = Settings()
    configmaps = {cm["metadata"]["name"]: dict(cm["data"]) for cm in bootstrap_configmaps(settings)}
    configmaps["config-features"].update(changes.pop("features", {}))
    configmaps.update(changes.pop("configmaps", {}))
    fields = {"user": "jane", "namespace": "default", "settings": settings, "operation": "CREATE"}
    return AdmissionContext(**{"configmaps": configmaps, **fields, **changes})


@pytest.fixture
def context() -> Callable[..., AdmissionContext]:
    """Makes a context; `features` and `configmaps` change the ConfigMaps."""
    return _context


@pytest.fixture
def admit() -> Callable[..., Obj]:
    """Defaults and validates an object as the API server would, and returns it."""

    def run(kind: str, obj: Obj, old: Obj | None = None, **changes: Any) -> Obj:
        [group] = [group for group, name in ADMISSION if name == kind]
        changes.setdefault("operation", "CREATE" if old is None else "UPDATE")
        ctx = _context(**changes, old=old)
        admission = ADMISSION[group, kind]
        filled = admission.default(obj, ctx)
        admission.validate(filled, old, ctx)
        return filled

    return run


@pytest.fixture
def refusal(admit: Callable[..., Obj]) -> Callable[..., str]:
    """What the client reads when the object is refused; fails if it is not."""

    def run(kind: str, obj: Obj, old: Obj | None = None, **changes: Any) -> str:
        with pytest.raises(AdmissionDenied) as denied:
            admit(kind, obj, old, **changes)
        return str(denied.value)

    return run
