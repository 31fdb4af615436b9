"""What every test may use. The real things are started once for the whole session, by the first test that asks.

`stack` is `penstock dev` in its own process; `kafka` is the embedded Kafka alone; `spark` is one Spark session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.jars import Jars
    from penstock.settings import Settings
    from running import Stack

# A developer's own settings must not change what is tested.
for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
    del os.environ[name]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """The whole stack, real, for all tests of the session. Shows its logs if a test failed."""
    from running import start_stack, stop_process

    running = start_stack(tmp_path_factory.mktemp("stack") / "data")
    yield running
    stop_process(running.process)
    if request.session.testsfailed:
        print(running.logs())


@pytest.fixture(scope="session")
def jar_folders() -> Jars:
    """The jars of the user's cache, fetched if need be."""
    from penstock.engine import jars, java
    from penstock.settings import Settings

    return jars.resolve(Settings(), java.find())


@pytest.fixture(scope="session")
def kafka_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the `kafka` fixture: every port free, data in a temporary folder."""
    from penstock.engine import ports
    from penstock.settings import Settings

    return ports.resolve(Settings(port=0, data_dir=tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def kafka(kafka_settings: Settings, jar_folders: Jars) -> Iterator[Settings]:
    """The embedded Kafka alone, with its topics. The value is the settings that reach it (`settings.bootstrap`)."""
    from running import running_kafka

    with running_kafka(kafka_settings, jar_folders):
        yield kafka_settings


@pytest.fixture(scope="session")
def spark(kafka_settings: Settings, jar_folders: Jars) -> Iterator[SparkSession]:
    """One Spark session as the pipeline has it."""
    from penstock.engine.spark import open_session

    for folder in ("logs", "spark"):
        (kafka_settings.data_dir / folder).mkdir(exist_ok=True)
    session = open_session(kafka_settings, jar_folders)
    yield session
    session.stop()
