"""The Ivy inside pyspark, which fetches jars from Maven Central: no Maven has to be installed."""

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
"""About as many files as there are, for the progress bar before Ivy has counted them."""

Progress = Callable[[int, int, str], None]
"""Called with the number of files that are there, the number expected, and what is being done."""


@dataclass(frozen=True)
class JarSet:
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
        return resources.files("penstock.engine.jar_files").joinpath(self.file).read_bytes()

    @property
    def configurations(self) -> list[str]:
        """The folders it consists of."""
        return sorted({proof.partition("/")[0] for proof in self.proofs})


PIPELINE = JarSet("ivy.xml", "Kafka and Spark's Kafka connector", ("spark/spark-*.jar", "kafka/kafka_*.jar"))
HISTORY = JarSet("ivy-history.xml", "Delta Lake", ("delta/delta-spark_*.jar", "delta/delta-storage-*.jar"))


def fetch(folder: Path, java: Java, progress: Progress, wanted: JarSet) -> None:
    """Brings the jars, each configuration into a folder of its name; `ivy/` then has what Ivy found out about them.

    Raises UserError where they cannot be had.
    """
    (folder / "ivy.xml").write_bytes(wanted.text)
    command = [
        *(str(java.program), "-Xmx128m", *_proxies(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "ivy"), "-confs", *wanted.configurations),
        *("-retrieve", str(folder / "[conf]" / "[artifact]-[revision].[ext]")),
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
        raise UserError("The installed pyspark has no Ivy jar.", "Reinstall it: pip install --force-reinstall pyspark")
    return jars[-1]
