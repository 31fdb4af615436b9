"""One version of a table: its files, and the offsets it reaches to, read from Delta's log without a JVM.

For tables in object stores, Spark's S3 properties (`spark.hadoop.fs.s3a.…`) become options of delta-rs. Without such
properties delta-rs finds credentials itself, in its own variables (`AWS_…`, `AZURE_…`, `GOOGLE_…`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.history.schema.columns import DAY, VERSION, VERSION_ID, HistoryProblem, Table, foreign, newer
from penstock.settings import Settings

if TYPE_CHECKING:
    from deltalake import DeltaTable

HOW_TO_INSTALL = "Install what it needs: pip install 'penstock[history]'"
FORBIDDEN_FEATURES = {"deletionVectors", "columnMapping"}
"""Features of Delta under which a file says other things than its rows do; the writer never turns them on."""


@dataclass(frozen=True)
class TableFiles:
    """The files of one version of a table."""

    version: int
    files: tuple[str, ...]
    bytes: int
    days: tuple[str, ...]
    positions: dict[int, int]
    """First offset of each partition that is not in the table."""
    gaps: dict[int, tuple[int, ...]]
    """Where offsets begin that Kafka removed before they were written, the newest gaps of each partition."""
    remote: Any = None
    """The Delta table itself, where its files are not on this machine."""


def location(root: str, table: Table) -> str:
    """Where a table of this root is."""
    return f"{root}/{table.name}"


def read_table(settings: Settings, table: Table, partitions: int) -> TableFiles | None:
    """The newest version of the table; None where none has been written. Raises HistoryProblem."""
    place = location(settings.history_root, table)
    found = open_table(place, storage_options(place, settings.spark_conf))
    if found is None:
        return None
    import pyarrow as pa

    check(found, place, table)
    actions = pa.table(found.get_add_actions(flatten=True)).to_pydict()
    local = "://" not in place
    return TableFiles(
        found.version(),
        tuple(found.file_uris()),
        sum(actions.get("size_bytes", ())),
        tuple(sorted({str(day) for day in actions.get(f"partition.{DAY}", ())})),
        _positions(found, table, partitions),
        _gaps(found, table, partitions),
        None if local else found,
    )


class FileSize(NamedTuple):
    """A file of a table."""

    day: date
    bytes: int
    newest: datetime | None
    """No row of it is newer; None where the table does not say so."""


def file_sizes(found: DeltaTable, table: Table) -> list[FileSize]:
    """The files of a table."""
    import pyarrow as pa

    actions = pa.table(found.get_add_actions(flatten=True)).to_pydict()
    days = [day if isinstance(day, date) else date.fromisoformat(str(day)) for day in actions[f"partition.{DAY}"]]
    newest = actions.get(f"max.{table.moment}") or [None] * len(days)
    return [FileSize(*file) for file in zip(days, actions["size_bytes"], newest, strict=True)]


def open_table(place: str, options: dict[str, str] | None = None) -> DeltaTable | None:
    """The table at this location, or None. Raises HistoryProblem."""
    if "://" not in place and not Path(place, "_delta_log").is_dir():
        return None
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError:
        raise HistoryProblem("The history cannot be read: packages are missing.", HOW_TO_INSTALL) from None
    try:
        return DeltaTable(place, storage_options=options)
    except TableNotFoundError as error:
        if "Unknown scheme" in str(error):
            raise unreadable(place, error) from error
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise unreadable(place, error) from error


def check(found: DeltaTable, place: str, table: Table) -> None:
    """Raises HistoryProblem if this version does not support the table."""
    written = found.transaction_version(VERSION_ID)
    # A writer that was killed right after it made the table has not noted the version yet.
    if written is None and [field.name for field in found.schema().fields] != list(table.names):
        raise foreign(place)
    if written is not None and written > VERSION:
        raise newer(place, written, VERSION)
    features = FORBIDDEN_FEATURES & set(found.protocol().reader_features or ())
    if features:
        raise HistoryProblem(
            f"The table {place} uses unsupported features of Delta: {', '.join(sorted(features))}.",
            "Use --engine spark.",
        )


def _gaps(found: DeltaTable, table: Table, partitions: int) -> dict[int, tuple[int, ...]]:
    noted = {number: map(found.transaction_version, table.gaps(number)) for number in range(partitions)}
    return {number: tuple(sorted(at for at in every if at is not None)) for number, every in noted.items()}


def _positions(found: DeltaTable, table: Table, partitions: int) -> dict[int, int]:
    known = {number: found.transaction_version(table.position(number)) for number in range(partitions)}
    return {number: position for number, position in known.items() if position is not None}


S3A = "spark.hadoop.fs.s3a."
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "azure"})
PATIENCE = {"max_retries": "3", "retry_timeout": "15s", "timeout": "30s"}
"""Limits how long an unreachable store blocks: a route that begins in the past waits for it."""
_SAME = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
}
_REFUSED = ("403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Unauthorized", "401")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def storage_options(root: str, spark_conf: Mapping[str, object]) -> dict[str, str]:
    """Options of delta-rs for tables under this root: from properties of Spark, and a time limit."""
    return {**PATIENCE, **_given(spark_conf)} if root.partition("://")[0] in OBJECT_STORES else {}


def _given(spark_conf: Mapping[str, object]) -> dict[str, str]:
    given = {name.removeprefix(S3A): str(value) for name, value in spark_conf.items() if name.startswith(S3A)}
    options = {option: given[name] for name, option in _SAME.items() if name in given}
    if endpoint := given.get("endpoint"):
        plain = given.get("connection.ssl.enabled", "true").lower() == "false" or endpoint.startswith("http://")
        options["aws_endpoint_url"] = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
        options.setdefault("aws_region", "us-east-1")  # a place of one's own has none, and one must be named
        if plain:
            options["aws_allow_http"] = "true"
    return options


def unreadable(place: str, error: BaseException) -> HistoryProblem:
    """The error for a table that cannot be read."""
    lines = _COLOURS.sub("", str(error) or type(error).__name__).replace("↳", "").splitlines()
    message = ": ".join(dict.fromkeys(line.strip().rstrip(".:") for line in lines if line.strip()))
    if "Unknown scheme" in message:
        return HistoryProblem(
            f"{place}: unknown scheme {place.partition('://')[0]}://.",
            "Check history_uri: a folder, or s3a://, hdfs://, gs://, abfss:// or file://.",
        )
    remedy = ""
    if "://" in place:
        remedy = "Check history_uri, and that the storage is reachable and readable; or use --engine spark."
        if any(word in message for word in _REFUSED):
            remedy = f"Its credentials were rejected: check {S3A}… in spark_conf, or AWS_… in the environment."
    return HistoryProblem(f"The table {place} cannot be read: {message[:400]}.", remedy)
