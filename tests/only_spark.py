"""Spark in the process of the tests, of which there is one at a time: pyspark keeps its JVM for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
        SparkSession._instantiatedSession.stop()
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
