"""The session has a slot for every task that must run at once, and a given cluster gets what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine import spark
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.spark_cluster import masters, properties
from penstock.engine.spark_cluster.masters import DriverAddress
from penstock.engine.spark_cluster.properties import SparkPlacement
from penstock.runtime.errors import UserError
from penstock.settings import Settings


def placed(url: str, packed: Path | None = None) -> SparkPlacement:
    return SparkPlacement(masters.parse(url), DriverAddress("10.0.0.7", "0.0.0.0"), packed)


def on_cluster(url: str, packed: Path | None = None, **settings: object) -> dict[str, str]:
    return spark.config_of(Settings(spark_master=url, **settings), Jars(Path("/jars")), placed(url, packed))  # type: ignore[arg-type]


def test_slots_hold_two_generations_and_the_dispatchers() -> None:
    assert Settings(partitions=4, dispatchers=2).task_slots == 12


def test_a_local_session_retries_tasks_and_stays_on_this_machine() -> None:
    config = spark.config_of(Settings(partitions=1), Jars(Path("/jars")))
    assert config["spark.master"] == f"local[5,{spark.TASK_FAILURES}]"
    assert config["spark.driver.bindAddress"] == "127.0.0.1"
    assert config["spark.hadoop.fs.permissions.umask-mode"] == "077"


def test_a_given_cluster_is_sent_the_jars_and_nothing_of_the_drivers_folders(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "connector.jar").touch()
    settings = Settings(spark_master="spark://s:7077")
    config = spark.config_of(settings, Jars(tmp_path), placed("spark://s:7077"))
    assert config["spark.master"] == "spark://s:7077"
    assert config["spark.jars"] == str(tmp_path / "spark" / "connector.jar")
    assert "spark.local.dir" not in config
    assert "spark.archives" not in config


def test_a_given_cluster_learns_the_drivers_address_and_gives_up_a_hung_host_in_seconds() -> None:
    config = on_cluster("spark://s:7077")
    assert (config["spark.driver.host"], config["spark.driver.bindAddress"]) == ("10.0.0.7", "0.0.0.0")
    assert config["spark.network.timeout"] == "15s"
    assert config["spark.dynamicAllocation.enabled"] == "false"
    assert config["spark.executor.memory"] == "1024m"


def test_executors_unpack_what_is_sent_where_their_python_looks_for_it() -> None:
    config = on_cluster("spark://s:7077", packed=Path("/cache/penstock-1.tar.gz"))
    assert config["spark.archives"] == "file:///cache/penstock-1.tar.gz#penstock-python"
    assert config["spark.executorEnv.PYTHONPATH"] == "./penstock-python"


def test_a_standalone_cluster_gives_what_it_has_and_kubernetes_is_asked_for_a_share_each() -> None:
    assert "spark.executor.cores" not in on_cluster("spark://s:7077", partitions=4)
    assert on_cluster("spark://s:7077", spark_executor_cores=3)["spark.executor.cores"] == "3"
    asked = on_cluster("k8s://https://api:6443", partitions=4, dispatchers=1, spark_executors=3)
    assert (asked["spark.executor.instances"], asked["spark.executor.cores"]) == ("3", "4")


def test_any_other_property_is_the_users_and_lists_are_joined() -> None:
    given: dict[str, str | int | float | bool] = {
        "spark.network.timeout": "30s",
        "spark.archives": "mine.zip",
        "spark.ui.enabled": True,
    }
    config = on_cluster("spark://s:7077", packed=Path("/p.tar.gz"), spark_conf=given)
    assert config["spark.network.timeout"] == "30s"
    assert config["spark.archives"] == "file:///p.tar.gz#penstock-python,mine.zip"
    assert config["spark.ui.enabled"] == "true"
    assert spark.config_of(Settings(spark_conf=given), Jars(Path("/jars")))["spark.archives"] == "mine.zip"


def test_properties_that_penstock_depends_on_are_refused_by_name_and_without_their_values() -> None:
    with pytest.raises(UserError) as refused:
        spark.check(Settings(spark_conf={"spark.speculation": "s3cret", "spark.master": "x", "executor.memory": "1"}))
    text = str(refused.value)
    assert "spark_conf cannot set spark.speculation: a second copy of a task would write every event twice." in text
    assert "spark_conf cannot set spark.master: it has a setting of its own: spark_master." in text
    assert "'executor.memory', which is not a property of Spark" in text
    assert "s3cret" not in text


def test_the_jvm_of_the_driver_gets_the_connector_before_sparks_own_jars(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "connector.jar").touch()
    first, *rest = spark.classpath(Jars(tmp_path))
    assert first == tmp_path / "spark" / "connector.jar"
    assert [jar.name for jar in rest if jar.name.startswith("spark-core")] == ["spark-core_2.13-4.2.0.jar"]
    assert rest == sorted(rest)


def test_the_heap_of_the_driver_is_the_settings() -> None:
    assert "-Xmx700m" in spark.java_options(Settings(spark_heap_mib=700))


def test_every_session_asks_for_a_secret_before_it_deserialises_anything() -> None:
    local = spark.config_of(Settings(), Jars(Path("/jars")))
    for config in (local, on_cluster("spark://s:7077"), on_cluster("k8s://https://k")):
        assert (config["spark.authenticate"], config["spark.network.crypto.enabled"]) == ("true", "true")


def test_a_standalone_cluster_needs_the_secret_that_it_was_started_with() -> None:
    def check(url: str, given: dict[str, object]) -> None:
        properties.check_secret(masters.parse(url), given)

    with pytest.raises(UserError, match=r"spark_conf has no spark\.authenticate\.secret, with which spark://s:7077"):
        check("spark://s:7077", {"spark.authenticate": True})
    check("spark://s:7077", {"spark.authenticate.secret": "s"})
    check("spark://s:7077", {"spark.authenticate": False})
    check("k8s://https://k", {})
    check("local[2]", {})
