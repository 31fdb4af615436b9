"""Makes the class archives of this checkout, if it has none yet, so that the JVMs of all tests start with them.

A stack makes them when it stops, but gives up soon where the machine is busy, as it is under the tests.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from penstock.engine import embedded_kafka, java, spark
from penstock.engine.jars import jar_cache
from penstock.settings import Settings
from tests.running import start_stack, stop_process
from tools.chaos import victims
from tools.chaos.plan import SPARK_JVM

DUMP_SECONDS = 120.0


def main() -> int:
    """Says what it does; its failure is none of the tests: they take longer without."""
    settings, found = Settings(), java.find_java()
    folders = jar_cache.resolve(settings, found)
    archives = {
        "kafka": embedded_kafka.archive(settings, folders, found),
        SPARK_JVM: spark.archive(settings, folders, found.home),
    }
    if all(archive.find() is not None for archive in archives.values()):
        return 0
    print("making class archives of Kafka and Spark: all further starts are faster", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-warm-up-") as folder:
        stack = start_stack(Path(folder) / "data")
        try:
            for name, archive in archives.items():
                process = victims.find(name, stack.record)
                if process is None or not archive.make(process.pid, DUMP_SECONDS):
                    print(f"no class archive of {name} could be made", file=sys.stderr)
        finally:
            stop_process(stack.process)
    return 0


if __name__ == "__main__":
    sys.exit(main())
