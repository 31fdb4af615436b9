"""Which bytes a jar must have: `pinned-jars.json` names every file with its SHA-256 sum, and comes with penstock.

Nothing else is used, wherever it came from. Sums are taken when the jars were fetched, and noted beside them together
with length and time of change, so that a start compares these alone; a file that was touched since is read again.
`make jars` writes the list anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from penstock.engine.datadir import write_atomically

FILE = "pinned-jars.json"
NOTE = "verified.json"
"""In a folder of jars: what was found to be as it should be."""


class PinnedJar(msgspec.Struct, frozen=True):
    """A jar that may be used."""

    file: str
    """In its folder of the cache, such as `kafka/slf4j-api-1.7.36.jar`."""
    organisation: str
    name: str
    version: str
    sha256: str
    licences: list[str]
    """As its publisher names them."""


_LIST = msgspec.json.Decoder(dict[str, list[PinnedJar]])


@dataclass(frozen=True)
class JarDifference:
    """A file that is not as it should be."""

    file: str
    what: str
    sums: str = ""
    """The sum it should have and the one it has, where both are known."""

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def pinned(asked_by: str) -> list[PinnedJar]:
    """The jars that an Ivy file stands for, by the list that comes with penstock."""
    return _all()[asked_by]


def every() -> list[PinnedJar]:
    """All of them, each once: Spark and Kafka may share one."""
    jars = {(jar.organisation, jar.name, jar.version): jar for listed in _all().values() for jar in listed}
    return [jars[key] for key in sorted(jars)]


def _all() -> dict[str, list[PinnedJar]]:
    return _LIST.decode(resources.files("penstock.engine.jars").joinpath(FILE).read_bytes())


def sums(jars: list[PinnedJar]) -> dict[str, str]:
    """The SHA-256 sum of each file."""
    return {jar.file: jar.sha256 for jar in jars}


def differences(root: Path, wanted: Mapping[str, str], *, every_byte: bool = True) -> list[JarDifference]:
    """What is missing, surplus and changed in a folder of jars; files noted as verified are read only if told so."""
    noted: Mapping[str, Any] = {} if every_byte else _noted(root)
    found = {str(path.relative_to(root)): path for path in root.glob("*/*.jar")}
    wrong = [JarDifference(name, "is missing") for name in wanted if name not in found]
    wrong += [JarDifference(name, "does not belong") for name in found if name not in wanted]
    return wrong + list(_changed({name: found[name] for name in wanted if name in found}, wanted, noted))


def _changed(files: Mapping[str, Path], wanted: Mapping[str, str], noted: Mapping[str, Any]) -> Iterator[JarDifference]:
    for name, path in files.items():
        if noted.get(name) == _mark(path, wanted[name]):
            continue
        if (has := sha256(path)) != wanted[name]:
            yield JarDifference(name, "has changed", f"expected {wanted[name]}, found {has}")


def note_verified(root: Path, wanted: Mapping[str, str]) -> None:
    """To be called where nothing differs. A folder that cannot be written is read in full at each start."""
    marks = {name: _mark(root / name, wanted[name]) for name in wanted}
    if marks != _noted(root):
        with contextlib.suppress(OSError):
            write_atomically(root / NOTE, json.dumps(marks, indent=2).encode())


def _noted(root: Path) -> Mapping[str, Any]:
    try:
        noted = json.loads((root / NOTE).read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _mark(path: Path, verified: str) -> list[str | int]:
    """What tells whether a file is still the one whose sum was taken."""
    state = path.stat()
    return [verified, state.st_size, state.st_mtime_ns]


def sha256(path: Path) -> str:
    """The sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
