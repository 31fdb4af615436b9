"""What an event's data says, in Spark: parsed once, then looked up, with nothing that raises.

Spark's JSON parser does not look at what follows a value, so the data is parsed as the first element of an array whose
second one says that the array is complete. No data can hold that one and close the array itself: it is drawn by lot at
each start.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.filters.data.facts import JSON_TYPE, NUMBER, READABLE, STRING, parts_of, path_of, variant_path

SESSION = {"spark.sql.variant.allowDuplicateKeys": "true"}
"""Required settings of the session: the last value of a repeated member counts."""

FACTS = "facts"
"""The column that `with_facts` adds."""

_END = secrets.token_hex(16)
_WHOLE, _COMPLETE = "facts_whole", "facts_complete"


def with_facts(records: DataFrame, names: Sequence[str], *, wanted: Column, content_type: Column) -> DataFrame:
    """The records with the texts of the named facts, in that order, as an array of bytes; null where there are none.

    Only the data of records that are wanted is parsed. Each step is a projection of its own, so that what is used
    several times is worked out once.
    """
    kept = records.columns
    keys = sorted({parts_of(name)[1] for name in names} - {""})
    is_json = wanted & F.rlike(content_type, F.lit(rf"(?is)\A(?:{JSON_TYPE})\z"))
    parsed = records.select(*kept, F.when(is_json, _parse(F.col("value"))).alias(_WHOLE))
    found = parsed.select(
        *kept, _complete().alias(_COMPLETE), *(_value(key).alias(_at(n)) for n, key in enumerate(keys))
    )
    typed = found.select("*", *(_type(_at(n)).alias(_type_of(n)) for n in range(len(keys))))
    texts = [_text(name, keys).cast("binary") for name in names]
    return typed.select(*kept, F.when(F.col(_COMPLETE), F.array(*texts)).alias(FACTS))


def _parse(value: Column) -> Column:
    text = F.try_validate_utf8(value.cast("string"))
    return F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{_END}"]')))


def _complete() -> Column:
    """Whether the data was one JSON value and nothing else."""
    end = F.try_variant_get(F.col(_WHOLE), "$[1]", "string") == F.lit(_END)
    return end & F.try_variant_get(F.col(_WHOLE), "$[2]", "variant").isNull()


def _value(key: str) -> Column:
    path = variant_path(path_of(key) or ())
    return F.try_variant_get(F.col(_WHOLE), f"$[0]{path}", "variant")


def _at(number: int) -> str:
    return f"facts_at{number}"


def _type_of(number: int) -> str:
    return f"facts_type{number}"


def _type(at: str) -> Column:
    """What Spark calls the value's type: STRING, BIGINT, DECIMAL(3,2), DOUBLE, BOOLEAN, VOID, OBJECT<…>, ARRAY<…>."""
    return F.when(F.col(at).isNotNull(), F.schema_of_variant(at))


def _text(name: str, keys: Sequence[str]) -> Column:
    if name == READABLE:
        return F.lit("json")
    kind, key = parts_of(name)
    number = keys.index(key)
    value, spark_type = F.col(_at(number)), F.col(_type_of(number))
    string = spark_type == F.lit("STRING")
    numeric = spark_type.isin("BIGINT", "DOUBLE") | F.startswith(spark_type, F.lit("DECIMAL"))
    if kind == STRING:
        return F.when(string, F.try_variant_get(value, "$", "string"))
    if kind == NUMBER:
        return F.when(numeric, _number_text(value))
    return (
        F.when(string, "string")
        .when(numeric, "number")
        .when(spark_type == "BOOLEAN", F.try_variant_get(value, "$", "string"))
        .when(spark_type == "VOID", "null")
        .when(F.startswith(spark_type, F.lit("ARRAY")), "array")
        .otherwise(F.when(spark_type.isNotNull(), "object"))
    )


def _number_text(value: Column) -> Column:
    """Whole numbers in digits alone, as the reference writes them; others are only ever read back as numbers."""
    number = F.try_variant_get(value, "$", "double")
    whole = number.try_cast("bigint")
    is_whole = (whole.cast("double") == number) & (F.abs(number) < F.lit(float(2**53)))
    return F.when(is_whole, whole.cast("string")).otherwise(number.cast("string"))
