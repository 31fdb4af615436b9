"""The history by itself: what a table of millions of events takes, and how long questions to it take.

    python -m tools.benchmarks.history --events 10000000

The table is filled directly, with the schema and the compression of the writer; each question is a new process, as a
person starts it. No stack runs beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from penstock.history.schema.arrow import schema_of
from penstock.history.schema.columns import ATTEMPTS, DAY, EVENTS, VERSION, VERSION_ID, Table

CHUNK = 500_000
DAYS = 10
RUNS = 3

MOMENT = "timestamptz '2026-11-01 00:00:00+00' + interval (i * $step) microsecond"
TIME = "strftime(timestamp '2026-11-01' + interval (i * $step) microsecond, '%Y-%m-%dT%H:%M:%S.%f"

NOTE = """array_to_string(list_transform(range(120), lambda k: ['order','invoice','customer','street','berlin','paid',
'open','express','blue','shirt','large','piece','voucher','return','parcel','warehouse'][1 + (hash(i, k) % 16)::int]),
' ')"""
"""A text as text is: of words that come again, in an order that does not."""

DATA = f"""json_object('number', i, 'customer', (hash(i, 1) % 100000)::varchar, 'amount', (hash(i, 2) % 100000) / 100,
'country', ['DE','FR','IT','ES','PL'][1 + (hash(i, 3) % 5)::int], 'note', {NOTE})"""

EVENT = f"""select ({MOMENT})::date as day, (i % 4)::int as partition, (i // 4)::bigint as "offset",
{MOMENT} as arrival, '5b0f0d8e-0000-4000-8000-00000000000' || (i % 3) as target, uuid()::varchar as id,
'/shops/' || (hash(i) % 200) as source, 'com.example.type' || (hash(i, 7) % 20) as type, '1.0' as specversion,
null::varchar as subject, {TIME}Z') as time, null::varchar as dataschema, 'application/json' as datacontenttype,
map {{'knativearrivaltime': {TIME}123Z'), 'knativebrokerttl': '255'}} as extensions, encode({DATA}::varchar) as data,
'00-' || replace(uuid()::varchar, '-', '') || '-' || substr(md5(i::varchar), 1, 16) || '-00' as traceparent,
null::blob as key, []::struct("key" varchar, "value" blob)[] as headers from range($first, $last) t(i)"""

ATTEMPT = f"""select ({MOMENT})::date as day, (i % 4)::int as partition, (i // 4)::bigint as "offset",
(i // 4)::bigint as record, 'id' || i as id, '/shops/' || (hash(i) % 200) as source,
'com.example.type' || (hash(i, 7) % 20) as type, '77777777-0000-4000-8000-00000000000' || (i % 3) as route,
'Trigger' as kind, 'default' as namespace, 'orders' || (i % 3) as name, 'subscriber' as stage, 1::int as attempt,
'http://sink.default.svc.cluster.local/' as destination, {MOMENT} + interval 5 millisecond as start,
(hash(i, 4) % 100000) / 1e7 as duration, 202::int as status, 'delivered' as result, null::varchar as reason,
null::timestamptz as due from range($first, $last) t(i)"""


def main() -> None:
    """Fills a table, asks it, and prints what was measured as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="keep the table here, and use the one that is there")
    arguments = parser.parse_args()
    found = measure(arguments.folder, arguments.events) if arguments.folder else alone(arguments.events)
    print(json.dumps(found, indent=2))


def alone(events: int = 10_000_000) -> dict[str, Any]:
    """All of it in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-history-") as folder:
        return measure(Path(folder), events)


def measure(folder: Path, events: int) -> dict[str, Any]:
    """What `make bench` shows of the history without a stack."""
    root = folder / "history"
    if not (root / "events").exists():
        fill(root, EVENTS, EVENT, events)
        fill(root, ATTEMPTS, ATTEMPT, events)
    size, json_bytes = sizes(root)
    ident = some_id(root)
    questions = {
        "look_up": ["events", "--since", "365d", "--id", ident],
        "trace": ["trace", ident],
        "group_by": ["sql", "select type, count(*) as n from events group by type order by n desc"],
        "one_hour": ["sql", "select count(*) from events where arrival < timestamptz '2026-11-01 01:00:00+00'"],
    }
    return {
        "events": events,
        "bytes_per_event": round(size / events),
        "json_bytes_per_event": round(json_bytes),
        "ratio": round(size / events / json_bytes, 3),
        **{f"{name}_seconds": ask(folder, question) for name, question in questions.items()},
    }


def fill(root: Path, table: Table, statement: str, count: int) -> None:
    """Writes so many rows, over some days, in files as the writer leaves them."""
    connection = duckdb.connect()
    connection.execute("set TimeZone='UTC'; set enable_progress_bar=false")
    step = DAYS * 86_400_000_000 // count
    for first in range(0, count, CHUNK):
        last = min(first + CHUNK, count)
        rows = connection.sql(_with(statement, first=first, last=last, step=step)).to_arrow_table()
        positions = [Transaction(table.position(partition), last // 4) for partition in range(4)]
        write_deltalake(
            str(root / table.name),
            pa.table(rows).cast(schema_of(table)),
            mode="append",
            partition_by=[DAY],
            writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=100_000),
            commit_properties=CommitProperties(app_transactions=[*positions, Transaction(VERSION_ID, VERSION)]),
        )


def _with(statement: str, **numbers: int) -> str:
    return Template(statement).substitute(numbers)


def sizes(root: Path) -> tuple[int, float]:
    """Bytes of the table `events`, and bytes of one event as JSON."""
    table = DeltaTable(str(root / EVENTS.name))
    size = sum(pa.table(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist())
    connection = duckdb.connect()
    found = connection.sql(
        "select avg(length(json_object('id', id, 'source', source, 'type', type, 'specversion', specversion, 'time', "
        "time, 'datacontenttype', datacontenttype)) + octet_length(data) + 9) "
        "from (from read_parquet($files) limit 10000)",
        params={"files": table.file_uris()[:1]},
    ).fetchall()
    return size, float(found[0][0])


def some_id(root: Path) -> str:
    """An id that is in the table, from its middle."""
    files = DeltaTable(str(root / EVENTS.name)).file_uris()
    found = duckdb.connect().sql("select id from read_parquet($file) limit 1", params={"file": files[len(files) // 2]})
    return str(found.fetchall()[0][0])


def ask(folder: Path, question: list[str]) -> float:
    """Seconds from the start of a new process to its answer; the median of a few."""
    seconds = []
    for _ in range(RUNS):
        began = time.monotonic()
        command = [sys.executable, "-m", "penstock.cli", *question, "--data-dir", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.monotonic() - began)
        if done.returncode:
            raise RuntimeError(done.stderr)
    return round(median(seconds), 2)


if __name__ == "__main__":
    main()
