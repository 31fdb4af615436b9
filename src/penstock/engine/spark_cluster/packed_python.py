"""What executors need of this machine's Python, as one archive that Spark sends them: penstock and all it depends on.

Not the interpreter, which an environment does not contain, and not pyspark, which every executor has. The archive is
named after what is in it, so a start finds the one of the last start, and is kept in the cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import re
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from penstock.engine.jars import cache_root
from penstock.runtime.errors import UserError
from penstock.settings import Settings

FOLDER = "penstock-python"
"""Where an executor unpacks it, below its working folder."""

PRESENT = frozenset({"pyspark", "py4j"})
"""What every executor has."""

KEPT = 4
"""Archives that stay in the cache folder: those used last."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")

Progress = Callable[[int, int, str], None]
"""Called with the number of packages that are packed, the number of all, and the one that is packed now."""


def python() -> str:
    """The interpreter that executors are to run: the same minor version, for compiled packages fit no other."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def ensure(settings: Settings, progress: Progress = lambda done, total, what: None) -> Path:
    """The archive for executors, made first if it is not there. Raises UserError if that fails."""
    packages = sorted(_needed("penstock"), key=_name)
    folder = cache_root(settings) / "executors"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"penstock-{_fingerprint(packages)}.tar.gz"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _pack(packages, path, progress)
            path.touch()
            for old in sorted(folder.glob("penstock-*.tar.gz"), key=lambda one: one.stat().st_mtime)[:-KEPT]:
                old.unlink()
    except OSError as error:
        raise UserError(
            f"The packages for executors could not be packed in {folder}: {error.strerror} ({error.filename}).",
            "Free some space, change its permissions, choose another folder with --cache-dir, or set spark_python to a "
            "Python of the executors that has penstock.",
        ) from None
    return path


def _pack(packages: list[Distribution], path: Path, progress: Progress) -> None:
    """Into a file beside, which then takes its name: there is never half an archive."""
    staging = path.with_suffix(".new")
    with tarfile.open(staging, "w:gz", compresslevel=3) as archive:
        for done, package in enumerate(packages):
            progress(done, len(packages), _name(package))
            for source, name in _files(package):
                archive.add(source, name, recursive=False)
    staging.replace(path)
    progress(len(packages), len(packages), "done")


def _needed(name: str, found: dict[str, Distribution] | None = None) -> list[Distribution]:
    """A package and what it requires, without extras and what only other platforms need."""
    found = {} if found is None else found
    key = _canonical(name)
    if key in found or key in PRESENT:
        return list(found.values())
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return list(found.values())  # of another platform or Python: it is not installed here either
    for requirement in found[key].requires or ():
        if "extra ==" not in requirement and (match := _NAME.match(requirement)):
            _needed(match.group(), found)
    return list(found.values())


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a package and their names in the archive; neither programs nor what Python compiled."""
    if _canonical(_name(package)) == "penstock":  # perhaps installed in a way that leaves it where it is developed
        yield from _modules("penstock")
    for file in package.files or ():
        name = file.as_posix()
        if name.startswith(("..", "penstock/")) or name.endswith((".pyc", ".pth")):
            continue
        source = Path(str(package.locate_file(file)))
        if source.is_file():
            yield source, name


def _modules(name: str) -> Iterator[tuple[Path, str]]:
    spec = find_spec(name)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for source in sorted(Path(root).rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                yield source, f"{name}/{source.relative_to(root).as_posix()}"


def _fingerprint(packages: list[Distribution]) -> str:
    """By the versions of all packages and the content of penstock itself, which changes while it is developed."""
    digest = hashlib.sha256(f"{platform.python_version()} {sysconfig.get_platform()}".encode())
    for package in packages:
        digest.update(f"{_name(package)}=={package.version}\n".encode())
    for source, name in _modules("penstock"):
        digest.update(name.encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _name(package: Distribution) -> str:
    return str(package.metadata["Name"])


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
