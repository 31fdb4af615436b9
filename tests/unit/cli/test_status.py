"""`penstock status` names the routes that are behind, the worst first, however many there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.output import lines_of
from penstock.cli.status import COLUMNS, NUMBERS, ROUTES_SHOWN, _cells, _print_routes, failing_lines
from penstock.operations.formatting import count, duration
from penstock.operations.stack_state import disk_problems, routes_behind
from penstock.settings import Settings

RECORDING = """
import sys
from penstock.observability.instruments import write_metrics
from penstock.observability.metrics import RouteMetrics
for number in range(25):
    route = RouteMetrics("Trigger", "team", f"t{number}")
    route.lag.set(number)
    route.oldest.set(number * 2.5)
write_metrics()
print("recorded", flush=True)
sys.stdin.read()
"""


def test_the_worst_are_shown_and_the_others_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", RECORDING], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as recording:
        assert recording.stdout is not None
        assert recording.stdout.readline() == b"recorded\n"
        behind = routes_behind(tmp_path)
        recording.communicate()
    assert behind is not None
    assert [route["lag"] for route in behind] == list(range(24, 0, -1))
    assert behind[0] == {"kind": "Trigger", "namespace": "team", "name": "t24", "lag": 24, "oldest_seconds": 60.0}
    _print_routes(behind)
    printed = capsys.readouterr().out
    assert printed.count("trigger team/") == ROUTES_SHOWN
    assert printed.index("team/t24") < printed.index("team/t23")
    assert "and 14 more routes with 105 waiting events" in printed


def test_that_nothing_is_known_is_not_called_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert routes_behind(tmp_path) is None
    _print_routes(None)
    _print_routes([])
    unknown, well = capsys.readouterr().out.split("\n\n")
    assert "unknown" in unknown
    assert "no events are waiting" in well


def test_routes_that_fail_are_counted() -> None:
    assert failing_lines([]) == ["no route fails"]
    assert failing_lines(["trigger/a/t"]) == ["1 route fails; the reasons: penstock lag"]
    assert failing_lines(["trigger/a/t", "trigger/a/u"]) == ["2 routes fail; the reasons: penstock lag"]
    assert "not known" in failing_lines(None)[0]


def test_components_fit_80_columns_with_everything_at_its_longest() -> None:
    row = {
        "component": "apiserver",
        "state": "restarting",
        "address": "https://127.0.0.1:58443",
        "pid": 4194304,
        "memory_mib": 1234,
        "uptime_seconds": 86_399,
        "restarts": 12,
        "lag": 1_234_567,
    }
    lines = lines_of(COLUMNS, [_cells(row)], NUMBERS)
    assert max(map(len, lines)) <= 80
    assert all(text in lines[1] for text in ("apiserver", "restarting", "127.0.0.1:58443", "4194304", "23h 59m"))


def test_names_are_never_cut() -> None:
    name = "trigger " + "n" * 63 + "/" + "t" * 200
    assert lines_of(("lag", "route"), [("1", name)], ("lag",))[1].endswith(name)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.2, "0s"), (59, "59s"), (200, "3m 20s"), (7500, "2h 5m"), (800_000, "9d 6h")]
)
def test_a_duration_is_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (12.4, "12"), (99_999, "99999"), (123_456, "123k"), (999_700, "1.0M"), (1_234_567, "1.2M")],
)
def test_a_count_is_short(number: float, text: str) -> None:
    assert count(number) == text


def test_a_disk_without_room_is_named_with_what_follows(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    more_than_any = 2**40
    (problem,) = disk_problems(Settings(data_dir=tmp_path, min_free_disk_mib=more_than_any))
    assert f" MiB free in {tmp_path}. Below {more_than_any} MiB" in problem, "both folders are on one disk"
    assert "507" in problem
    assert disk_problems(Settings(data_dir=tmp_path, min_free_disk_mib=0)) == []
    assert disk_problems(Settings(data_dir=tmp_path, min_free_disk_mib=more_than_any, kafka="kafka:9092")) == []
