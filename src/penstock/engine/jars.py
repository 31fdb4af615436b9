"""The jars of Kafka and of Spark's Kafka connector: fetched once, checked at every start, kept in the user's cache.

Only jars with the pinned sums get there. Files that no longer have them are fetched again. The folder is named after
what `ivy.xml` asks for, so versions of penstock do not disturb each other. A lock lets two stacks that start together
fetch once.
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

from penstock.engine.jar_files import ivy, pinned_jars
from penstock.engine.jar_files.ivy import PIPELINE, JarSet, Progress
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
        """What Spark gets in addition to its own jars."""
        return sorted((self.root / "spark").glob("*.jar"))

    @property
    def delta_files(self) -> list[Path]:
        """What the writer of the history gets in addition to that."""
        return sorted((self.root / "delta").glob("*.jar"))


def cache_root(settings: Settings) -> Path:
    """The folder of downloads."""
    if settings.cache_dir is not None:
        return settings.cache_dir.expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "penstock"


def folder(settings: Settings, wanted: JarSet = PIPELINE) -> Path:
    """Where the jars of this version of penstock are kept."""
    return cache_root(settings) / "jars" / hashlib.sha256(wanted.text).hexdigest()[:12]


def archive_folder(settings: Settings) -> Path:
    """Where class archives are kept."""
    return cache_root(settings) / "archives"


def resolve(
    settings: Settings, java: Java, progress: Progress = lambda done, total, what: None, wanted: JarSet = PIPELINE
) -> Jars:
    """The jars, fetched first if they are missing or damaged. Raises UserError if that fails."""
    root, sums = folder(settings, wanted), pinned_jars.sums(pinned_jars.pinned(wanted.file))
    try:
        if _is_whole(root, sums):  # asked without the lock: the cache may be part of an image, where nothing is written
            return Jars(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        with _lock(root.with_suffix(".lock")):
            if not _is_whole(root, sums):
                _fetch(root, java, progress, wanted, sums)
    except OSError as error:
        raise UserError(
            f"The cache folder {cache_root(settings)} cannot be used: {error.strerror} ({error.filename}).",
            "Free some space, change its permissions, or choose another with --cache-dir.",
        ) from None
    return Jars(root)


def _is_whole(root: Path, sums: Mapping[str, str]) -> bool:
    if pinned_jars.differences(root, sums, every_byte=False):
        return False
    pinned_jars.note_verified(root, sums)
    return True


def damage(root: Path, wanted: JarSet = PIPELINE) -> list[pinned_jars.JarDifference]:
    """What is wrong with a folder of jars, every byte of them read."""
    return pinned_jars.differences(root, pinned_jars.sums(pinned_jars.pinned(wanted.file)))


def _fetch(root: Path, java: Java, progress: Progress, wanted: JarSet, sums: Mapping[str, str]) -> None:
    """Fetches into a folder beside, which then takes the place of the old one: there is never half a cache."""
    staging = root.with_suffix(".new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        ivy.fetch(staging, java, progress, wanted)
        shutil.rmtree(staging / "ivy")
        if wrong := pinned_jars.differences(staging, sums):
            raise UserError(
                f"The checksums of the downloaded jars of {wanted.what} differ from those that penstock expects. "
                "The files were discarded.",
                "Try another network or mirror. If they differ there too, report it as SECURITY.md describes.",
                tuple(f"{one}: {one.sums}" if one.sums else str(one) for one in wrong[:12]),
            )
        pinned_jars.note_verified(staging, sums)
        shutil.rmtree(root, ignore_errors=True)
        staging.rename(root)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
