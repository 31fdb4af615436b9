"""`penstock sql --engine spark`: the same question to Spark, where the tables are larger than this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.history.asking import note
from penstock.engine.problem import Problem

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.settings import Settings


def answer(statement: str, settings: Settings) -> pa.Table:
    """The answer. Raises Problem."""
    import pyarrow as pa
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from penstock.engine.history import session, views
    from penstock.history.schema.problem import HistoryProblem

    note("starting Spark")
    spark = session.open_session(settings, name="sql-spark")
    try:
        views.make(spark, settings)
        found = views.query(spark, statement)
        rows = [row.asDict(recursive=True) for row in found.collect()]
        names = found.columns
    except HistoryProblem as problem:
        raise Problem(problem.what, problem.remedy) from None
    except (PySparkException, Py4JError) as error:
        raise Problem(f"The statement failed: {str(error).splitlines()[0]}") from None
    finally:
        spark.stop()
    return pa.table({name: pa.array([row[name] for row in rows]) for name in names})
