"""What every test may use. The real things are started once for the whole session, by the first test that asks.

`stack` is `penstock dev` in its own process; `kafka` is the embedded Kafka alone; `spark` is one Spark session.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, cast

import pytest
import structlog
from hypothesis import settings

from tests.only_spark import only_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.jars.jar_cache import Jars
    from penstock.settings import Settings
    from tests.running import Stack

# A developer's own settings must not change what is tested.
for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
    del os.environ[name]

STATE = tempfile.TemporaryDirectory(prefix="penstock-state-")
"""Stacks of tests note there that they run, not where the user's commands look."""
os.environ["XDG_STATE_HOME"] = STATE.name

# Whoever edits wants an answer in seconds, `make test` wants one that can be relied on; a busy machine is no defect.
settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=100, deadline=None)
settings.load_profile("quick")

# The default draws the variables of every frame of an exception that is logged, which takes longer than most tests.
plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the stack wrote, where a test of it failed. In CI a test that is skipped has failed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome, report.longrepr = "failed", f"skipped, which CI does not allow: {report.longrepr}"
    used: dict[str, object] = getattr(item, "funcargs", {})
    if report.failed and "stack" in used:
        report.sections.append(("the stack", cast("Stack", used["stack"]).logs()))
    return report


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole stack, real, for all tests of the session."""
    from tests.running import start_stack, stop_process

    # Pods of this image run the command that they name themselves. A machine that pauses is not a Kafka that is away.
    flags = ("--set", 'images={"test/shell*": []}', "--set", "store_timeout_seconds=30")
    running = start_stack(tmp_path_factory.mktemp("stack") / "data", *flags)
    yield running
    stop_process(running.process)


@pytest.fixture(scope="session")
def jar_folders() -> Jars:
    """The jars of the user's cache, fetched if need be."""
    from penstock.engine import java
    from penstock.engine.jars import jar_cache
    from penstock.settings import Settings

    return jar_cache.resolve(Settings(), java.find_java())


@pytest.fixture(scope="session")
def kafka_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the `kafka` fixture: every port free, data in a temporary folder."""
    from penstock.settings import Settings
    from tests.running import with_held_ports

    return with_held_ports(Settings(data_dir=tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def kafka(kafka_settings: Settings, jar_folders: Jars) -> Iterator[Settings]:
    """The embedded Kafka alone, with its topics. The value is the settings that reach it (`settings.bootstrap`)."""
    from tests.running import running_kafka

    with running_kafka(kafka_settings, jar_folders):
        yield kafka_settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with another Spark than the pipeline's come last: it takes the place of that one for good."""
    items.sort(key=lambda item: "delta" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def spark(kafka_settings: Settings, jar_folders: Jars) -> Iterator[SparkSession]:
    """One Spark session as the pipeline has it."""
    from penstock.engine.spark import open_session

    for folder in ("logs", "spark"):
        (kafka_settings.data_dir / folder).mkdir(exist_ok=True)

    def tell(code: int) -> None:
        if code != 0:
            print(f"Spark's JVM of the tests ended with code {code}", file=sys.stderr)

    with only_spark(lambda: open_session(kafka_settings, jar_folders, jvm_ended=tell)) as session:
        yield session
