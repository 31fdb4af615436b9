"""The Python packages of an installation: what penstock needs, what that needs, and so on, by installed metadata.

What is needed may differ by Python and system (markers are evaluated for the one that asks); versions are those of
`requirements.lock`, from which the environment is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageMetadata, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from tools.dependencies import licences

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
EXTRAS = frozenset({"history"})


@dataclass(frozen=True)
class Package:
    """An installed package."""

    name: str
    version: str
    licence: str
    """SPDX, or what its metadata say where that is no SPDX."""
    needs: tuple[str, ...] = ()
    """Names of packages, where somebody asked what it needs."""


def normal(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def shipped(root: str = "penstock", extras: frozenset[str] = EXTRAS) -> list[Package]:
    """The package itself, first, and everything that is installed with it."""
    asked: dict[str, frozenset[str]] = {}
    needs: dict[str, tuple[str, ...]] = {}
    waiting = [(normal(root), extras)]
    while waiting:
        name, wanted = waiting.pop()
        if name in asked and wanted <= asked[name]:
            continue
        asked[name] = asked.get(name, frozenset()) | wanted
        required = list(_required(distribution(name), asked[name]))
        needs[name] = tuple(sorted({normal(one.name) for one in required}))
        waiting += [(normal(one.name), frozenset(one.extras)) for one in required]
    others = sorted(needs.keys() - {normal(root)})
    return [_package(distribution(name), needs[name]) for name in (normal(root), *others)]


def locked() -> dict[str, str]:
    """Versions by name as `requirements.lock` has them, tools of development included."""
    # The lines of a package behind its first one are the sums of its files.
    lines = [line.rstrip("\\ ") for line in LOCK.read_text().splitlines() if line and not line.startswith((" ", "#"))]
    pinned = [line.partition(";")[0].strip().partition("==") for line in lines]
    return {normal(name): version for name, _, version in pinned}


def installed() -> list[Package]:
    """Those of the lock file that are in this environment: some are for one system or Python only."""
    found = {normal(one.name): one for one in distributions()}
    return [_package(found[name]) for name in sorted(found.keys() & locked().keys())]


def _required(found: Distribution, extras: frozenset[str]) -> Iterable[Requirement]:
    for line in found.requires or ():
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield one


def _package(found: Distribution, needs: tuple[str, ...] = ()) -> Package:
    name, metadata = normal(found.name), found.metadata
    licence = licences.of_package(
        name,
        expression=_field(metadata, "License-Expression"),
        text=_field(metadata, "License"),
        classifiers=metadata.get_all("Classifier") or [],
    )
    return Package(name, found.version, licence, needs)


def _field(metadata: PackageMetadata, name: str) -> str | None:
    return next(iter(metadata.get_all(name) or ()), None)
