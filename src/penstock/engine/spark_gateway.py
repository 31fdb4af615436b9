"""Starts Spark's JVM directly: `spark-submit` would first start two shells and another JVM to compute the command.

pyspark connects to an existing JVM if two environment variables contain its port and secret. The JVM ends when its
standard input is closed, that is, when this process ends for any reason.
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
"""The JVM options of Spark's own launcher; a test compares them."""


class Gateway:
    """A JVM of Spark that is starting. It ends at the latest with this process."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-gateway-")
        self._address_file = Path(self._folder.name, "address")
        env = {**env, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address_file), "SPARK_HOME": str(spark_home())}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env)

    @contextmanager
    def used_by_pyspark(self) -> Iterator[None]:
        """A context in which pyspark of this process uses this JVM. Waits until the JVM is ready."""
        import pyspark.sql  # noqa: F401  # takes a second, while the JVM starts

        port, secret = self._await_address()
        variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                del os.environ[name]

    def _await_address(self) -> tuple[int, str]:
        """The port and the secret of the JVM."""
        deadline = time.monotonic() + START_SECONDS
        while not self._address_file.is_file():  # it is renamed into place
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark's JVM did not start (exit code {self.process.returncode})")
            time.sleep(LOOK_SECONDS)
        content = self._address_file.read_bytes()
        self._folder.cleanup()
        # Written by DataOutputStream: the port, then the length and the bytes of the secret.
        return int.from_bytes(content[:4], "big"), content[8 : 8 + int.from_bytes(content[4:8], "big")].decode()

    def on_exit(self, callback: Callable[[int], None]) -> None:
        """Calls the function with the exit code when the JVM ends, in another thread."""
        threading.Thread(target=lambda: callback(self.process.wait()), name="Spark's JVM", daemon=True).start()


def start(java: Path, options: list[str], classpath: list[Path]) -> Gateway:
    """Starts the JVM and returns at once, so that pyspark can be imported meanwhile."""
    jars = ":".join(map(str, classpath))
    return Gateway([str(java), "-cp", jars, *options, *MODULE_OPTIONS, MAIN], dict(os.environ))


def spark_home() -> Path:
    """The folder of pyspark, without importing it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("pyspark is not installed.", "Install penstock again: pip install penstock")
    return Path(spec.submodule_search_locations[0])


def spark_jars() -> list[Path]:
    """Spark's own jars."""
    return sorted((spark_home() / "jars").glob("*.jar"))
