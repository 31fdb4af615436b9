"""Evaluation on Spark, many expressions in one action: starting a job costs more than all that it evaluates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

Question = tuple[Callable[[Column], Column], Mapping[str, str]]
"""What to compile over the attributes, and the attributes."""

EVENTS = "events array<map<string,string>>"

Ask = Callable[[Sequence[Question]], list[Any]]


@pytest.fixture(scope="session")
def ask(spark: SparkSession) -> Ask:
    """Answers questions in one Spark action."""

    def answers(questions: Sequence[Question]) -> list[Any]:
        # A table made from an RDD is opaque to the optimizer, which would else answer in its own interpreter.
        source = spark.createDataFrame([([dict(event) for _, event in questions],)], EVENTS)
        asked = [compiled(F.get("events", F.lit(n))).alias(f"answer{n}") for n, (compiled, _) in enumerate(questions)]
        return list(source.select(*asked).collect()[0]) if questions else []

    return answers
