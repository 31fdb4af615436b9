"""Results as tables, CSV, JSON or Parquet."""

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
"""What of a cell is shown in a table."""


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def write(answer: pa.Table, form: Format, output: Path | None) -> None:
    """Prints an answer, or writes it to a file. Raises UserError."""
    if form is Format.PARQUET and output is None and sys.stdout.isatty():
        raise UserError("Parquet is not for a terminal.", "Name a file: --output FILE", exit_code=2)
    try:
        if form is Format.PARQUET:
            _parquet(answer, output)
            return
        text = {Format.TABLE: table, Format.CSV: csv, Format.JSON: to_json}[form](answer)
        if output is None:
            say(text, nl=False)
        else:
            output.write_text(text)
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}.") from None


def table(answer: pa.Table) -> str:
    """As wide as what it holds; long cells are cut."""

    numbers = {field.name for field in answer.schema if _is_number(field)}
    rows = [[_cell(value) for value in row.values()] for row in answer.to_pylist(maps_as_pydicts="lossy")]
    lines = lines_of(answer.column_names, rows, numbers) if answer.column_names else []
    count = f"{answer.num_rows} row{'' if answer.num_rows == 1 else 's'}"
    return "\n".join([*lines, f"({count})"]) + "\n"


def csv(answer: pa.Table) -> str:
    """With a line of names first."""
    import csv as library
    import io

    text = io.StringIO()
    writer = library.writer(text, lineterminator="\n")
    writer.writerow(answer.column_names)
    for row in answer.to_pylist(maps_as_pydicts="lossy"):
        writer.writerow("" if value is None else _plain(value) for value in row.values())
    return text.getvalue()


def to_json(answer: pa.Table) -> str:
    """One object per line; bytes that are no text as base64."""
    return "".join(
        json.dumps(row, default=_plain, ensure_ascii=False) + "\n" for row in answer.to_pylist(maps_as_pydicts="lossy")
    )


def _parquet(answer: pa.Table, output: Path | None) -> None:
    import pyarrow.parquet as pq

    pq.write_table(answer, sys.stdout.buffer if output is None else output, compression="zstd")


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
