"""The jars of Kafka and of Spark's Kafka connector: fetched once, checked at every start, kept in the user's cache.

The Ivy inside pyspark fetches them from Maven Central, so no Maven is needed. What it brought is described by a
manifest of checksums; files that no longer match it are fetched again. The folder is named after what `ivy.xml` asks
for, so versions of penstock do not disturb each other. A lock lets two stacks that start together fetch once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from penstock.engine.datadir import write_atomically
from penstock.engine.java import Java
from penstock.engine.problem import Problem
from penstock.engine.processes.process import tied_to_parent
from penstock.engine.spark_gateway import spark_jars
from penstock.settings import Settings

MANIFEST = "manifest.json"
EXPECTED_FILES = 50
"""About as many files as there are, for the progress bar before Ivy has counted them."""

Progress = Callable[[int, int, str], None]
"""Called with the number of files that are there, the number expected, and what is being done."""


@dataclass(frozen=True)
class Wanted:
    """A set of jars that is fetched together."""

    file: str
    """What to ask Ivy for."""
    what: str
    """What to call it to people."""
    proofs: tuple[str, ...]
    """Jars that tell whether the fetch succeeded: each configuration has its folder."""

    @property
    def text(self) -> bytes:
        """The file's content."""
        return resources.files("penstock.engine").joinpath(self.file).read_bytes()

    @property
    def configurations(self) -> list[str]:
        """The folders it consists of."""
        return sorted({proof.partition("/")[0] for proof in self.proofs})


PIPELINE = Wanted("ivy.xml", "Kafka and Spark's Kafka connector", ("spark/spark-*.jar", "kafka/kafka_*.jar"))
HISTORY = Wanted("ivy-history.xml", "Delta Lake", ("delta/delta-spark_*.jar", "delta/delta-storage-*.jar"))


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


def folder(settings: Settings, wanted: Wanted = PIPELINE) -> Path:
    """Where the jars of this version of penstock are kept."""
    return cache_root(settings) / "jars" / hashlib.sha256(wanted.text).hexdigest()[:12]


def archive_folder(settings: Settings) -> Path:
    """Where class archives are kept."""
    return cache_root(settings) / "archives"


def resolve(
    settings: Settings, java: Java, progress: Progress = lambda done, total, what: None, wanted: Wanted = PIPELINE
) -> Jars:
    """The jars, fetched first if they are missing or damaged. Raises Problem if that fails."""
    root = folder(settings, wanted)
    try:
        if not damage(root):  # asked without the lock: the cache may be part of an image, where nothing is written
            return Jars(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        with _lock(root.with_suffix(".lock")):
            if damage(root):
                _fetch(root, java, progress, wanted)
    except OSError as error:
        raise Problem(
            f"The cache folder {cache_root(settings)} cannot be used: {error.strerror} ({error.filename}).",
            "Make room or change its rights, or choose another with --cache-dir.",
        ) from None
    return Jars(root)


def damage(root: Path) -> list[str]:
    """What is wrong with a folder of jars: missing, surplus and changed files. Empty if it is as it was fetched."""
    try:
        manifest: dict[str, str] = json.loads((root / MANIFEST).read_bytes())["sha256"]
    except FileNotFoundError:
        return ["no manifest"]
    except (ValueError, KeyError, TypeError):
        return ["the manifest cannot be read"]
    found = {str(path.relative_to(root)): path for path in root.glob("*/*.jar")}
    wrong = [f"{name} is missing" for name in manifest if name not in found]
    wrong += [f"{name} does not belong" for name in found if name not in manifest]
    wrong += [f"{name} has changed" for name in manifest if name in found and _sha256(found[name]) != manifest[name]]
    return wrong


def _fetch(root: Path, java: Java, progress: Progress, wanted: Wanted) -> None:
    """Fetches into a folder beside, which then takes the place of the old one: there is never half a cache."""
    staging = root.with_suffix(".new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    (staging / "ivy.xml").write_bytes(wanted.text)
    try:
        _run_ivy(staging, java, progress, wanted)
        shutil.rmtree(staging / "ivy")
        jars = sorted(staging.glob("*/*.jar"))
        manifest = {"sha256": {str(jar.relative_to(staging)): _sha256(jar) for jar in jars}}
        write_atomically(staging / MANIFEST, json.dumps(manifest, indent=2).encode())
        shutil.rmtree(root, ignore_errors=True)
        staging.rename(root)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _run_ivy(staging: Path, java: Java, progress: Progress, wanted: Wanted) -> None:
    command = [
        *(str(java.program), "-Xmx128m", *_proxies(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-ivy", str(staging / "ivy.xml"), "-cache", str(staging / "ivy"), "-confs", *wanted.configurations),
        *("-retrieve", str(staging / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    found, fetched = 0, 0
    tail: list[str] = []
    progress(0, EXPECTED_FILES, "asking Maven Central")
    with _started(command) as ivy:
        for line in ivy.stdout or ():
            tail = [*tail[-30:], line.rstrip()]
            words = line.split()
            found += words[:1] == ["found"]
            if words[:1] == ["[SUCCESSFUL"] and len(words) > 2:
                fetched += 1
                progress(fetched, max(found, EXPECTED_FILES), words[2].partition("#")[2].partition("!")[0])
    if ivy.returncode != 0 or not all(list(staging.glob(proof)) for proof in wanted.proofs):
        reasons = tuple(line.strip() for line in tail if line.strip(" :\t"))
        raise Problem(
            f"The jars of {wanted.what} could not be fetched from Maven Central.",
            "Check the network (HTTPS_PROXY is used if set) and start again; it is needed for the first start only.",
            reasons[-12:],
        )
    progress(fetched, fetched, "checked")


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A program that does not outlive this process, nor an interruption of what reads it."""
    life, held = os.pipe()
    try:
        process = subprocess.Popen(
            tied_to_parent(command, life),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=(life,),
        )
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        os.close(life)
        os.close(held)


def _proxies() -> Iterator[str]:
    """Java does not read the proxy variables that every other tool reads."""
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        proxy = urlsplit(value if "://" in value else f"http://{value}") if value else None
        if proxy is not None and proxy.hostname:
            yield f"-D{scheme}.proxyHost={proxy.hostname}"
            yield f"-D{scheme}.proxyPort={proxy.port or 80}"


def _ivy_jar() -> Path:
    jars = [jar for jar in spark_jars() if jar.name.startswith("ivy-")]
    if not jars:
        raise Problem(
            "The installed pyspark has no Ivy jar.", "Install it again: pip install --force-reinstall pyspark"
        )
    return jars[-1]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
