"""Fetches jars from Maven Central with the Ivy that is part of pyspark, so that no Maven is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from penstock.engine.java import Java
from penstock.engine.processes.process import tied_to_parent
from penstock.engine.spark_gateway import spark_jars
from penstock.runtime.errors import UserError

EXPECTED_FILES = 50
"""An estimate for the progress bar, until Ivy has counted them."""

Progress = Callable[[int, int, str], None]
"""Called with the number of fetched files, the number of all files, and the current file."""


@dataclass(frozen=True)
class JarSet:
    """A set of jars that is fetched together."""

    file: str
    """The name of the Ivy file."""
    what: str
    """What it is called in messages."""
    proofs: tuple[str, ...]
    """Patterns of jars that must exist after a fetch; each Ivy configuration has a folder."""

    @property
    def text(self) -> bytes:
        """The file's content."""
        return resources.files("penstock.engine.jars").joinpath(self.file).read_bytes()

    @property
    def configurations(self) -> list[str]:
        """The Ivy configurations, each of which is a folder."""
        return sorted({proof.partition("/")[0] for proof in self.proofs})


PIPELINE = JarSet("ivy.xml", "Kafka and Spark's Kafka connector", ("spark/spark-*.jar", "kafka/kafka_*.jar"))
HISTORY = JarSet("ivy-history.xml", "Delta Lake", ("delta/delta-spark_*.jar", "delta/delta-storage-*.jar"))


def fetch(folder: Path, java: Java, progress: Progress, wanted: JarSet) -> None:
    """Fetches the jars, each configuration into a folder of its name; `ivy/` then has Ivy's metadata about them.

    Raises UserError if that fails.
    """
    (folder / "ivy.xml").write_bytes(wanted.text)
    command = [
        *(str(java.program), "-Xmx128m", *_proxies(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "ivy"), "-confs", *wanted.configurations),
        *("-retrieve", str(folder / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    found, fetched = 0, 0
    tail: list[str] = []
    progress(0, EXPECTED_FILES, "connecting to Maven Central")
    with _started(command) as ivy:
        for line in ivy.stdout or ():
            tail = [*tail[-30:], line.rstrip()]
            words = line.split()
            found += words[:1] == ["found"]
            if words[:1] == ["[SUCCESSFUL"] and len(words) > 2:
                fetched += 1
                progress(fetched, max(found, EXPECTED_FILES), words[2].partition("#")[2].partition("!")[0])
    if ivy.returncode != 0 or not all(list(folder.glob(proof)) for proof in wanted.proofs):
        reasons = tuple(line.strip() for line in tail if line.strip(" :\t"))
        raise UserError(
            f"The jars of {wanted.what} could not be fetched from Maven Central.",
            "Check the network (HTTPS_PROXY is used if set) and start again; only the first start needs it.",
            reasons[-12:],
        )
    progress(fetched, fetched, "checked")


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A child process that is killed when this process ends or the block is left by an exception."""
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
    """Options for the proxy of `http_proxy` and `https_proxy`, which Java does not read."""
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        proxy = urlsplit(value if "://" in value else f"http://{value}") if value else None
        if proxy is not None and proxy.hostname:
            yield f"-D{scheme}.proxyHost={proxy.hostname}"
            yield f"-D{scheme}.proxyPort={proxy.port or 80}"


def _ivy_jar() -> Path:
    jars = [jar for jar in spark_jars() if jar.name.startswith("ivy-")]
    if not jars:
        raise UserError(
            "The installed pyspark has no Ivy jar.", "Install it again: pip install --force-reinstall pyspark"
        )
    return jars[-1]
