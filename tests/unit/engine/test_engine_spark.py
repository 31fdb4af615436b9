"""The session has a slot for every task that must run at once."""

from __future__ import annotations

from pathlib import Path

from penstock.engine import spark
from penstock.engine.jars import Jars
from penstock.settings import Settings


def test_slots_hold_two_generations_and_the_dispatchers() -> None:
    assert spark.slots(Settings(partitions=4, dispatchers=2)) == 12


def test_a_local_session_retries_tasks_and_stays_on_this_machine() -> None:
    config = spark.config_of(Settings(partitions=1), Jars(Path("/jars")))
    assert config["spark.master"] == f"local[5,{spark.TASK_FAILURES}]"
    assert config["spark.driver.bindAddress"] == "127.0.0.1"
    assert config["spark.hadoop.fs.permissions.umask-mode"] == "077"


def test_a_given_cluster_is_sent_the_jars(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "connector.jar").touch()
    config = spark.config_of(Settings(spark_master="spark://s:7077"), Jars(tmp_path))
    assert config["spark.master"] == "spark://s:7077"
    assert config["spark.jars"] == str(tmp_path / "spark" / "connector.jar")


def test_the_jvm_of_a_local_session_gets_the_connector_before_sparks_own_jars(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "connector.jar").touch()
    first, *rest = spark.classpath(Jars(tmp_path))
    assert first == tmp_path / "spark" / "connector.jar"
    assert [jar.name for jar in rest if jar.name.startswith("spark-core")] == ["spark-core_2.13-4.2.0.jar"]
    assert rest == sorted(rest)


def test_the_heap_of_a_local_session_is_the_settings() -> None:
    assert "-Xmx700m" in spark.java_options(Settings(spark_heap_mib=700))
