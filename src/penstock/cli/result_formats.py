"""Output of `penstock sql`: tables, CSV, JSON or Parquet."""

from __future__ import annotations

import base64
import json
import sys
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.output import lines_of, say
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


SHOWN_CHARACTERS = 80
"""Longer cells of a table are cut."""


class Format(StrEnum):
    """Format of a result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def write(result: pa.Table, form: Format, output: Path | None) -> None:
    """Prints a result or writes it to a file. Raises UserError."""
    if form is Format.PARQUET and output is None and sys.stdout.isatty():
        raise UserError("Parquet cannot be printed to a terminal.", "Write it to a file: --output FILE", exit_code=2)
    try:
        if form is Format.PARQUET:
            _parquet(result, output)
            return
        text = {Format.TABLE: table, Format.CSV: csv, Format.JSON: to_json}[form](result)
        if output is None:
            say(text, nl=False)
        else:
            output.write_text(text)
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.") from None


def table(result: pa.Table) -> str:
    """A table as wide as its content; long cells are cut."""
    numbers = {field.name for field in result.schema if _is_number(field)}
    rows = [[_cell(value) for value in row.values()] for row in result.to_pylist(maps_as_pydicts="lossy")]
    lines = lines_of(result.column_names, rows, numbers) if result.column_names else []
    count = f"{result.num_rows} row{'' if result.num_rows == 1 else 's'}"
    return "\n".join([*lines, f"({count})"]) + "\n"


def csv(result: pa.Table) -> str:
    """CSV with a header."""
    import csv as library
    import io

    text = io.StringIO()
    writer = library.writer(text, lineterminator="\n")
    writer.writerow(result.column_names)
    for row in result.to_pylist(maps_as_pydicts="lossy"):
        writer.writerow("" if value is None else _plain(value) for value in row.values())
    return text.getvalue()


def to_json(result: pa.Table) -> str:
    """One object per line; bytes that are not UTF-8 as base64."""
    return "".join(
        json.dumps(row, default=_plain, ensure_ascii=False) + "\n" for row in result.to_pylist(maps_as_pydicts="lossy")
    )


def _parquet(result: pa.Table, output: Path | None) -> None:
    import pyarrow.parquet as pq

    pq.write_table(result, sys.stdout.buffer if output is None else output, compression="zstd")


def _is_number(field: pa.Field) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = str(_plain(value)).replace("\n", " ")
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, list | dict):
        return json.dumps(value, default=_plain, ensure_ascii=False)
    return value if isinstance(value, str | int | float | bool) else str(value)
