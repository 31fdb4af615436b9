"""Class archives with a real JVM: made from a running Kafka, used by the next, and harmless when damaged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.engine import embedded_kafka, java, spark_gateway
from penstock.engine.jars.jar_cache import Jars
from penstock.settings import Settings
from tests.running import running_kafka, with_held_ports

DUMP_SECONDS = 120


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_archive_is_made_used_and_harmless_when_damaged(tmp_path: Path, jar_folders: Jars) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache"))
    settings.data_dir.mkdir()
    archive = embedded_kafka.archive(settings, jar_folders, java.find_java())
    with running_kafka(settings, jar_folders) as process:
        assert archive.make(process.pid, DUMP_SECONDS)
    file = archive.find()
    assert file is not None
    with running_kafka(settings, jar_folders) as process:
        assert str(file) in Path(f"/proc/{process.pid}/maps").read_text(), "it is not used"
    content = bytearray(file.read_bytes())
    content[len(content) // 3 :: 4096] = bytes(len(content[len(content) // 3 :: 4096]))
    file.chmod(0o600)
    file.write_bytes(content)
    with running_kafka(settings, jar_folders):
        pass  # it became ready all the same
    file.write_bytes(content[:5000])
    with running_kafka(settings, jar_folders) as process:
        assert archive.make(process.pid, DUMP_SECONDS), "one that was cut off is made again"


def test_spark_is_started_with_the_options_its_own_launcher_gives_it() -> None:
    """Reads what `spark-submit` would run."""
    jars = str(spark_gateway.spark_home() / "jars" / "*")
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    home = str(spark_gateway.spark_home())
    said = subprocess.run(
        [str(java.find_java().program), "-cp", jars, *launcher],
        env={"SPARK_HOME": home, "SPARK_SCALA_VERSION": "2.13", "JAVA_HOME": str(java.find_java().home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    words = [word.strip() for word in said.split("\0") if word.strip()]
    options = words[words.index("-cp") + 2 : words.index("org.apache.spark.deploy.SparkSubmit")]
    assert tuple(option for option in options if not option.startswith("-Xmx")) == spark_gateway.MODULE_OPTIONS
