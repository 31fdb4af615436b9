"""Spark in the process of the tests, of which there is one at a time: pyspark keeps its JVM for good."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def only_spark(open_session: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """A session with a JVM of its own, in place of the one that other tests of this process have used before."""
    _end()
    session = open_session()
    yield session
    from pyspark.sql import SparkSession

    if SparkSession._instantiatedSession is session:
        _end()


def _end() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkSession._instantiatedSession is not None:
        try:
            SparkSession._instantiatedSession.stop()
        except (Py4JError, OSError) as error:  # whoever needed the JVM has failed already
            print(f"Spark's JVM of these tests was gone before their end: {error!r}", file=sys.stderr)
            SparkSession._instantiatedSession = SparkSession._activeSession = None
            SparkContext._active_spark_context = None
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
