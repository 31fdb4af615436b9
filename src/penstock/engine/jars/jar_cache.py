"""The cache of jars: fetched once, checked at every start, kept in the user's cache folder.

Only jars with the pinned checksums are stored; a changed file is fetched again. The folder's name is a hash of
`ivy.xml`, so versions of penstock do not disturb each other. A lock lets two stacks that start together fetch once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.jars import ivy, pinned_jars
from penstock.engine.jars.ivy import PIPELINE, JarSet, Progress
from penstock.engine.java import Java
from penstock.runtime.errors import UserError
from penstock.settings import Settings


@dataclass(frozen=True)
class Jars:
    """The folders of resolved jars."""

    root: Path

    @property
    def kafka_classpath(self) -> str:
        """Class path of the embedded Kafka."""
        return ":".join(map(str, self.kafka_files))

    @property
    def kafka_files(self) -> list[Path]:
        """The jars of the embedded Kafka, in an order that never changes."""
        return sorted((self.root / "kafka").glob("*.jar"))

    @property
    def spark_files(self) -> list[Path]:
        """Jars for Spark, in addition to its own."""
        return sorted((self.root / "spark").glob("*.jar"))

    @property
    def delta_files(self) -> list[Path]:
        """Further jars for Spark sessions that use the history."""
        return sorted((self.root / "delta").glob("*.jar"))


def cache_root(settings: Settings) -> Path:
    """The cache folder."""
    if settings.cache_dir is not None:
        return settings.cache_dir.expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "penstock"


def folder(settings: Settings, wanted: JarSet = PIPELINE) -> Path:
    """The folder of the jars for this version of penstock."""
    return cache_root(settings) / "jars" / hashlib.sha256(wanted.text).hexdigest()[:12]


def archive_folder(settings: Settings) -> Path:
    """The folder of the class archives."""
    return cache_root(settings) / "archives"


def resolve(
    settings: Settings, java: Java, progress: Progress = lambda done, total, what: None, wanted: JarSet = PIPELINE
) -> Jars:
    """The jars, fetched first if they are missing or damaged. Raises UserError if that fails."""
    root, sums = folder(settings, wanted), pinned_jars.sums(pinned_jars.pinned(wanted.file))
    try:
        if _is_complete(root, sums):  # without the lock: the cache may be in a read-only image
            return Jars(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        with _lock(root.with_suffix(".lock")):
            if not _is_complete(root, sums):
                _fetch(root, java, progress, wanted, sums)
    except OSError as error:
        raise UserError(
            f"The cache folder {cache_root(settings)} cannot be used: {error.strerror} ({error.filename}).",
            "Free some disk space or change its permissions, or choose another folder with --cache-dir.",
        ) from None
    return Jars(root)


def _is_complete(root: Path, sums: Mapping[str, str]) -> bool:
    if pinned_jars.differences(root, sums, every_byte=False):
        return False
    pinned_jars.record_verified(root, sums)
    return True


def damage(root: Path, wanted: JarSet = PIPELINE) -> list[pinned_jars.JarDifference]:
    """The differences between a folder of jars and the pinned list. Reads every file."""
    return pinned_jars.differences(root, pinned_jars.sums(pinned_jars.pinned(wanted.file)))


def _fetch(root: Path, java: Java, progress: Progress, wanted: JarSet, sums: Mapping[str, str]) -> None:
    """Fetches into a temporary folder and renames it, so that the cache is never incomplete."""
    staging = root.with_suffix(".new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        ivy.fetch(staging, java, progress, wanted)
        shutil.rmtree(staging / "ivy")
        if wrong := pinned_jars.differences(staging, sums):
            raise UserError(
                f"The jars of {wanted.what} from Maven Central, or from a mirror or proxy, do not have the checksums "
                "that penstock expects. They were discarded.",
                "Try another network or mirror. If they differ there too, report it as SECURITY.md says.",
                tuple(f"{one}: {one.sums}" if one.sums else str(one) for one in wrong[:12]),
            )
        pinned_jars.record_verified(staging, sums)
        shutil.rmtree(root, ignore_errors=True)
        staging.rename(root)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
