"""The list of pinned jars: `pinned-jars.json` has the SHA-256 sum of every jar, and is part of penstock.

No other jar is used. After a fetch the sums are computed and recorded beside the jars with size and modification time,
so that a start only compares the latter; a file that has changed since is read again. `make jars` updates the list.
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
VERIFIED_FILE = "verified.json"
"""In a folder of jars: the files that were verified."""


class PinnedJar(msgspec.Struct, frozen=True):
    """A jar that may be used."""

    file: str
    """Path in the cache folder, such as `kafka/slf4j-api-1.7.36.jar`."""
    organisation: str
    name: str
    version: str
    sha256: str
    licences: list[str]
    """As named by its publisher."""


_LIST = msgspec.json.Decoder(dict[str, list[PinnedJar]])


@dataclass(frozen=True)
class JarDifference:
    """A file that differs from the pinned list."""

    file: str
    what: str
    sums: str = ""
    """The expected and the actual checksum, if the file exists."""

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def pinned(asked_by: str) -> list[PinnedJar]:
    """The pinned jars of an Ivy file."""
    return _all()[asked_by]


def every() -> list[PinnedJar]:
    """All pinned jars without duplicates: Spark and Kafka may share one."""
    jars = {(jar.organisation, jar.name, jar.version): jar for listed in _all().values() for jar in listed}
    return [jars[key] for key in sorted(jars)]


def _all() -> dict[str, list[PinnedJar]]:
    return _LIST.decode(resources.files("penstock.engine.jars").joinpath(FILE).read_bytes())


def sums(jars: list[PinnedJar]) -> dict[str, str]:
    """The SHA-256 sum of each file."""
    return {jar.file: jar.sha256 for jar in jars}


def differences(root: Path, wanted: Mapping[str, str], *, every_byte: bool = True) -> list[JarDifference]:
    """Missing, additional and changed files in a folder of jars. Verified files are read only with `every_byte`."""
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


def record_verified(root: Path, wanted: Mapping[str, str]) -> None:
    """Records that nothing differs. In a read-only folder all files are read at each start."""
    marks = {name: _mark(root / name, wanted[name]) for name in wanted}
    if marks != _noted(root):
        with contextlib.suppress(OSError):
            write_atomically(root / VERIFIED_FILE, json.dumps(marks, indent=2).encode())


def _noted(root: Path) -> Mapping[str, Any]:
    try:
        noted = json.loads((root / VERIFIED_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _mark(path: Path, verified: str) -> list[str | int]:
    """Identifies the state of a file whose checksum was verified."""
    state = path.stat()
    return [verified, state.st_size, state.st_mtime_ns]


def sha256(path: Path) -> str:
    """The sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
