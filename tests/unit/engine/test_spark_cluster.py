"""What may be wrong with a given cluster is told in one sentence that names the setting to look at."""

from __future__ import annotations

import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from penstock.engine.spark_cluster import executors, masters, packed_python
from penstock.engine.spark_cluster.executors import TaskFailure
from penstock.engine.spark_cluster.masters import Master
from penstock.runtime.errors import UserError
from penstock.settings import Settings

ELSEWHERE = Master("spark://192.0.2.1:7077", "standalone", (("192.0.2.1", 7077),))


@pytest.mark.parametrize(
    ("url", "kind", "addresses"),
    [
        ("local[4]", "local", ()),
        ("yarn", "yarn", ()),
        ("spark://a:7077", "standalone", (("a", 7077),)),
        ("spark://a,b:7078", "standalone", (("a", 7077), ("b", 7078))),
        ("k8s://https://api:6443", "kubernetes", (("api", 6443),)),
        ("k8s://api", "kubernetes", (("api", 443),)),
    ],
)
def test_masters_are_known_by_their_urls(url: str, kind: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert masters.parse(url) == Master(url, kind, addresses)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["a:7077", "spark://", "spark://a:port", "mesos://a:5050", "k8s://", "Local"])
def test_what_is_no_master_is_refused_with_what_would_be_one(url: str) -> None:
    with pytest.raises(UserError, match="which is not a Spark master"):
        masters.parse(url)


def connect(address: tuple[str, int]) -> None:
    if address[0] != "standby":
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_master_that_does_not_answer_is_named() -> None:
    with pytest.raises(UserError, match=r"cannot be reached \(a:7077: Connection refused\).*spark_master"):
        masters.check_reachable(masters.parse("spark://a:7077"), connect)


def test_one_of_several_masters_is_enough() -> None:
    knocked: list[str] = []

    def listen(address: tuple[str, int]) -> None:
        knocked.append(address[0])
        connect(address)

    masters.check_reachable(masters.parse("spark://a:7077,standby:7077,c:7077"), listen)
    assert knocked == ["a", "standby"]


def test_yarn_needs_to_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(UserError, match="HADOOP_CONF_DIR"):
        masters.check_reachable(masters.parse("yarn"))


@pytest.mark.parametrize("kafka", [None, "127.0.0.1:9092", "kafka:9092, localhost:9092", "[::1]:9092"])
def test_executors_elsewhere_are_not_sent_to_a_kafka_on_their_own_machine(kafka: str | None) -> None:
    with pytest.raises(UserError, match=r"127.0.0.1, where executors|its own machine"):
        masters.check_kafka_in_reach(Settings(kafka=kafka), ELSEWHERE)


def test_a_kafka_that_executors_reach_and_a_cluster_on_this_machine_are_fine() -> None:
    masters.check_kafka_in_reach(Settings(kafka="kafka-1:9092,kafka-2:9092"), ELSEWHERE)
    assert not masters.on_this_machine(ELSEWHERE)
    assert masters.on_this_machine(masters.parse("spark://127.0.0.1:7077"))
    masters.check_kafka_in_reach(Settings(), masters.parse("spark://127.0.0.1:7077"))
    masters.check_kafka_in_reach(Settings(kafka="127.0.0.1:9092"), masters.parse("spark://localhost:7077"))


def test_the_driver_is_where_the_master_is_reached_from_unless_it_is_given() -> None:
    here = masters.parse("spark://127.0.0.1:7077")
    assert masters.driver_address(Settings(), here) == masters.DriverAddress("127.0.0.1", "127.0.0.1")
    given = masters.driver_address(Settings(spark_driver_host="driver.svc"), here)
    assert given == masters.DriverAddress("driver.svc", "0.0.0.0")
    bound = masters.driver_address(Settings(spark_driver_host="driver.svc", spark_driver_bind="10.0.0.7"), here)
    assert bound == masters.DriverAddress("driver.svc", "10.0.0.7")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'java.io.IOException: Cannot run program "python3.11": Exec failed, error: 2 (No such file or directory)',
            "on w1 has no Python 'python3.11'. Install python3.11 there, or set spark_python to its Python.",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.12 than that in driver: 3.11, PySpark cannot run",
            "runs Python 3.12, and this machine 3.",
        ),
        (
            "ModuleNotFoundError: No module named 'penstock'",
            "lacks the package 'penstock'. Install penstock",
        ),
        (
            "ImportError: /lib/libc.so.6: version `GLIBC_2.38' not found (required by uvloop/loop.so)",
            "cannot load a package: /lib/libc.so.6: version `GLIBC_2.38' not found",
        ),
        (
            "java.io.InvalidClassException: org.apache.spark.rpc.netty.X; local class incompatible",
            "has another version of Spark than pyspark here (4.2.0). Run the same version",
        ),
        ("java.lang.IllegalStateException: the disk is full", "A first task failed on the executor on w1: java.lang."),
    ],
)
def test_a_task_that_fails_first_says_what_the_executor_lacks(text: str, told: str) -> None:
    assert told in str(executors.explain_failure(TaskFailure("w1", text), "python3.11"))


def test_a_master_that_does_not_take_the_application_is_perhaps_another_version() -> None:
    text = "An error occurred\n: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext\n\tat"
    told = str(executors.application_rejected("spark://m:7077", text))
    assert told.startswith("The Spark master spark://m:7077 did not take the application. : java.lang.Illegal")
    assert "It must be Spark 4.2.0" in told


def test_what_executors_need_is_packed_once_without_programs_and_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = [*packed_python._needed("structlog"), distribution("penstock")]
    monkeypatch.setattr(packed_python, "_needed", lambda name: needed)
    told: list[tuple[int, int, str]] = []
    path = packed_python.ensure(Settings(cache_dir=tmp_path), lambda *step: told.append(step))
    with tarfile.open(path) as archive:
        names = archive.getnames()
    assert {"penstock/dispatcher/worker.py", "structlog/__init__.py"} <= set(names)
    assert any(name.startswith("penstock-") and name.endswith("METADATA") for name in names)
    assert not [name for name in names if name.endswith(".pyc") or name.startswith(("pyspark", "..", "bin"))]
    assert told[0][:2] == (0, len(needed))
    assert told[-1][:2] == (len(needed), len(needed))
    told.clear()
    assert packed_python.ensure(Settings(cache_dir=tmp_path), lambda *step: told.append(step)) == path
    assert not told, "it was there"


def test_what_penstock_requires_is_found_through_all_it_requires_and_spark_is_not() -> None:
    names = {packed_python._canonical(packed_python._name(one)) for one in packed_python._needed("penstock")}
    assert {"penstock", "confluent-kafka", "pydantic", "pydantic-core", "uvloop", "msgspec"} <= names
    assert not names & {"pyspark", "py4j", "pytest"}


def test_a_cache_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"could not be packed in .*Not a directory.*--cache-dir"):
        packed_python.ensure(Settings(cache_dir=tmp_path / "file"))
