"""Spark's JVM, started directly: `spark-submit` would start two shells and another JVM first, only to find out how.

pyspark connects to a JVM that is there already if two variables say where it answers. The JVM ends when the pipe to
its standard input breaks, which is when this process ends, however it ends.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.runtime.errors import UserError

MAIN = "org.apache.spark.api.python.PythonGatewayServer"
START_SECONDS = 120.0
LOOK_SECONDS = 0.02

MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark asks of Java, as its own launcher says; a test compares."""


class Gateway:
    """A JVM of Spark that is starting. It ends with this object's pipe, at the latest with this process."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-gateway-")
        self._answers = Path(self._folder.name, "address")
        env = {**env, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answers), "SPARK_HOME": str(spark_home())}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env)

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Within, the pyspark of this process takes this JVM for its own. Waits until it answers."""
        import pyspark.sql  # noqa: F401  # takes a second, which the JVM needs as well

        port, secret = self._await_address()
        known = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(known)
        try:
            yield
        finally:
            for name in known:
                del os.environ[name]

    def _await_address(self) -> tuple[int, str]:
        """The port and the secret with which it answers, as soon as it does."""
        deadline = time.monotonic() + START_SECONDS
        while not self._answers.is_file():  # it appears whole
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark's JVM did not start (exit code {self.process.returncode})")
            time.sleep(LOOK_SECONDS)
        said = self._answers.read_bytes()
        self._folder.cleanup()
        # Written by DataOutputStream: the port, then the length and the bytes of the secret.
        return int.from_bytes(said[:4], "big"), said[8 : 8 + int.from_bytes(said[4:8], "big")].decode()

    def tell_end(self, ended: Callable[[int], None]) -> None:
        """Calls the function with the exit code when the JVM ends, from a thread of its own."""
        threading.Thread(target=lambda: ended(self.process.wait()), name="Spark's JVM", daemon=True).start()


def start(java: Path, options: list[str], classpath: list[Path]) -> Gateway:
    """Starts the JVM; returns at once, so that this process imports pyspark meanwhile."""
    jars = ":".join(map(str, classpath))
    return Gateway([str(java), "-cp", jars, *options, *MODULE_OPTIONS, MAIN], dict(os.environ))


def spark_home() -> Path:
    """Where pyspark is installed, without importing it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("pyspark is not installed.", "Reinstall penstock: pip install --force-reinstall penstock")
    return Path(spec.submodule_search_locations[0])


def spark_jars() -> list[Path]:
    """Spark's own jars."""
    return sorted((spark_home() / "jars").glob("*.jar"))
