"""One Kafka and one Spark session with Delta for all tests of the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.kafka.clients import portable
from tests.only_spark import only_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.jars.jar_cache import Jars
    from penstock.settings import Settings


@pytest.fixture
def settings(kafka: Settings, tmp_path: Path) -> Settings:
    """A history of its own on the Kafka of all tests."""
    return portable(kafka).model_copy(update={"history_uri": str(tmp_path / "history"), "data_dir": tmp_path})


@pytest.fixture(scope="session")
def delta(kafka_settings: Settings, jar_folders: Jars) -> Iterator[SparkSession]:
    """A session that reads and writes tables."""
    from penstock.engine.history.spark import open_session

    for folder in ("logs", "spark"):
        (kafka_settings.data_dir / folder).mkdir(exist_ok=True)
    with only_spark(lambda: open_session(kafka_settings)) as session:
        yield session
