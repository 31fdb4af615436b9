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
    assert config["spark.driver.extraClassPath"] == "/jars/spark/*"


def test_a_given_cluster_is_sent_the_jars(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "connector.jar").touch()
    config = spark.config_of(Settings(spark_master="spark://s:7077"), Jars(tmp_path))
    assert config["spark.master"] == "spark://s:7077"
    assert config["spark.jars"] == str(tmp_path / "spark" / "connector.jar")
    assert "spark.driver.memory" not in config
