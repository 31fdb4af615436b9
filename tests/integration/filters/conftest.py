"""Evaluation on Spark, many expressions in one action: starting a job costs more than all that it evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

Question = tuple[Callable[[Column], Column], Mapping[str, str]]
"""What to compile over the attributes, and the attributes."""

EVENTS = "events array<map<string,string>>"

Ask = Callable[[Sequence[Question]], list[Any]]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in this process; one that is already there is used and left alone."""
    existing = SparkSession.getActiveSession()
    session = existing or (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    if existing is None:
        session.stop()


@pytest.fixture(scope="session")
def ask(spark: SparkSession) -> Ask:
    """Answers questions in one Spark action."""

    def answers(questions: Sequence[Question]) -> list[Any]:
        # A table made from an RDD is opaque to the optimizer, which would else answer in its own interpreter.
        source = spark.createDataFrame([([dict(event) for _, event in questions],)], EVENTS)
        asked = [compiled(F.get("events", F.lit(n))).alias(f"answer{n}") for n, (compiled, _) in enumerate(questions)]
        return list(source.select(*asked).collect()[0]) if questions else []

    return answers
