"""A standalone Spark from pyspark's own jars: a Master and two Workers, the second without any of the project's files.

The second Worker lives in a mount namespace of its own, in which the checkout, its environment, the data folders and
the cache are empty. All that it and its executors have is Spark, Java and the Python of the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from penstock.engine.jars import jar_cache
from penstock.engine.java import Java
from penstock.engine.ports import free_ports
from penstock.engine.spark_cluster.properties import AUTHENTICATED
from penstock.engine.spark_gateway import MODULE_OPTIONS, spark_home
from penstock.runtime.files import write_private
from penstock.settings import Settings
from tools.cluster.processes import Program

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
CORES_EACH = 5
"""Task slots of an executor: one alone has enough for two generations of one partition."""
SLOTS = 2 * CORES_EACH
"""Of an application, which has an executor on each Worker; and of a Worker, on which there is room for the executors of
two applications: the one at work and the one that stands by, or another that hangs."""
REACH_SECONDS = 120.0
SCALA = "2.13"
NOTHING_HIDDEN = "a Worker without the project's files, because this machine allows no mount namespace"
CHECKOUT = Path(__file__).resolve().parents[2]


class StandaloneSpark:
    """The cluster; its programs are killed and frozen by others."""

    def __init__(self, folder: Path, java: Java, hidden: tuple[Path, ...] = ()) -> None:
        """`hidden` are folders that the second Worker must not see, beside the checkout and the cache."""
        self._java, self._port = java, free_ports(1)[0]
        self.secret = secrets.token_hex(32)
        self._properties = folder / "spark.properties"
        secured = {**AUTHENTICATED, "spark.authenticate.secret": self.secret}
        write_private(self._properties, "".join(f"{name} {value}\n" for name, value in secured.items()).encode())
        self.url = f"spark://127.0.0.1:{self._port}"
        self.master = Program("master", folder / "master", self._program(spark_home(), MASTER, self._listening()))
        works = [folder / name / "work" for name in ("worker-1", "worker-2")]
        bare = folder / "worker-2" / "spark"
        blank = [CHECKOUT, jar_cache.cache_root(Settings()), Path(sys.prefix).resolve(), *hidden]
        hides = _may_hide()
        self.left_out = [] if hides else [NOTHING_HIDDEN]
        second = (
            _without(blank, spark_home(), bare, self._worker(bare, works[1]))
            if hides
            else self._worker(spark_home(), works[1])
        )
        self.workers = [
            Program("worker-1", works[0].parent, self._worker(spark_home(), works[0])),
            Program("worker-2", works[1].parent, second),
        ]

    async def start(self) -> None:
        """Starts all; returns when the Master takes applications."""
        await self.master.start()
        async with asyncio.timeout(REACH_SECONDS):
            while not await self._answers():  # noqa: ASYNC110  # nothing tells of it, one has to look
                await asyncio.sleep(0.1)
        for worker in self.workers:
            await worker.start()

    async def stop(self) -> None:
        """Ends all."""
        for program in (*self.workers, self.master):
            await program.stop()

    @staticmethod
    def executors(worker: Program) -> list[psutil.Process]:
        """The executors of a Worker, without their Python processes."""
        return [one for one in worker.whole() if any(EXECUTOR in word for word in _command(one))]

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True

    def _listening(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"]

    def _worker(self, home: Path, work: Path) -> list[str]:
        sizes = ["--cores", str(SLOTS), "--memory", "4g", "--work-dir", str(work)]
        own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *sizes]
        return self._program(home, WORKER, [*own, self.url])

    def _program(self, home: Path, main: str, arguments: list[str]) -> list[str]:
        # The interpreter that the environment was made of: an executor finds it by its name, as on its own machine.
        path = f"{Path(os.path.realpath(sys.executable)).parent}:{os.environ.get('PATH', '')}"
        # Spark's own scripts set the version of Scala, without which a Worker does not find the jars for its executors.
        variables = [
            f"SPARK_SCALA_VERSION={SCALA}",
            f"SPARK_HOME={home}",
            f"JAVA_HOME={self._java.home}",
            f"PATH={path}",
            "SPARK_LOCAL_IP=127.0.0.1",
        ]
        options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *MODULE_OPTIONS, "-cp", f"{home}/jars/*"]
        secured = ["--properties-file", str(self._properties)]
        return [_found("env"), *variables, str(self._java.program), *options, main, *secured, *arguments]


def _without(blank: list[Path], spark: Path, home: Path, command: list[str]) -> list[str]:
    """The command where these folders are empty, and where Spark is found elsewhere than in them."""
    seen = [one for one in blank if not any(other != one and other in one.parents for other in blank)]
    steps = [f"mkdir -p {home}", "mount --make-rprivate /", f"mount --bind {spark} {home}", "cd /"]
    for one in (shlex.quote(str(one)) for one in seen):
        steps += [f"mkdir -p {one}", f"mount -t tmpfs none {one}"]
    return _hidden(" && ".join([*steps, f"exec {shlex.join(command)}"]))


def _may_hide() -> bool:
    """Whether this machine lets us have a mount namespace, which many containers do not."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        _hidden("mount --make-rprivate / && mount -t tmpfs none /mnt"), capture_output=True, check=False
    )
    return tried.returncode == 0


def _hidden(script: str) -> list[str]:
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    return [_found("unshare"), *flags, _found("sh"), "-c", script]


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not on the PATH")
    return path


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
