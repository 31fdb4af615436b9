"""Memory over time, its chart, and changes side by side."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.benchmarks import charts
from tools.chaos import report
from tools.chaos.books import Books
from tools.chaos.changes import Changes, Pace
from tools.chaos.checker import Era, Expected, check
from tools.chaos.events import type_of
from tools.chaos.memory import MIB, Sample, slope, usages
from tools.chaos.results import Result
from tools.chaos.routes import Urls
from tools.chaos.stack import Stack

EVERYTHING = frozenset(type_of(number) for number in range(100))


def life(pid: int, begin: float, mib: float, per_hour: float) -> list[Sample]:
    """An hour of a process that begins with 50 MiB more than it keeps."""
    samples = []
    for second in range(0, 3600, 60):
        extra = 50 if second < 120 else 0
        samples.append(Sample(begin + second, pid, int((mib + extra + per_hour * second / 3600) * MIB)))
    return samples


@pytest.mark.parametrize("per_hour", [0.0, 12.0, -3.0])
def test_the_slope_is_that_within_lives_without_their_beginnings(per_hour: float) -> None:
    found = slope([*life(1, 0, 200, per_hour), *life(2, 3600, 90, per_hour)])
    assert found == pytest.approx(per_hour, abs=0.01)


def test_a_life_that_was_too_short_has_no_slope() -> None:
    assert slope(life(1, 0, 200, 5)[:3]) is None


def test_usage_is_told_by_role() -> None:
    (one,) = usages({"kafka": [Sample(0, 1, 10 * MIB), Sample(10, 1, 30 * MIB), Sample(20, 1, 20 * MIB)]})
    assert (one.role, one.first, one.last, one.most) == ("kafka", 10, 20, 30)


def test_the_chart_has_a_line_for_each_role() -> None:
    drawn = charts.lines({"kafka": [(0, 10), (30, 20)], "ingress": [(0, 5), (30, 5)]}, "minutes", "MiB")
    lines = [one.attrib["points"] for one in ET.fromstring(drawn).iter() if one.tag.endswith("polyline")]
    assert len(lines) == 2
    assert lines[0].split()[-1].split(",")[1] == f"{charts.TOP}.0", "the highest reaches the top"
    assert "kafka" in drawn


def test_the_report_has_the_memory_of_all_roles_and_its_chart(tmp_path: Path) -> None:
    result = Result(7, 50.0, 0, "soak", memory={"kafka": life(1, 0, 200, 12)})
    report.write(result, tmp_path)
    assert "| kafka | 250 | 212 | 250 | +12.0 |" in (tmp_path / "report.md").read_text()
    assert "polyline" in (tmp_path / "memory.svg").read_text()
    (tmp_path / report.SOAK_CHART).parent.mkdir()
    page = tmp_path / "reliability.md"
    page.write_text(f"{report.SOAK_BEGIN}\nold\n{report.SOAK_END}\n")
    report.publish(result, page)
    assert "old" not in page.read_text()
    assert f"({report.SOAK_CHART})" in page.read_text()
    assert (tmp_path / report.SOAK_CHART).exists()


def test_an_event_outside_of_a_routes_numbers_need_not_arrive() -> None:
    books = Books()
    for number in range(300):
        books.sent.begin(number, 1.0)
        books.sent.accept(number, 1.5)
    lost = check(books, [Expected("extra", [Era(EVERYTHING)], start=100, end=102)]).lost
    assert [one.id for one in lost] == ["100", "101"]


def test_changers_have_routes_of_their_own() -> None:
    made = changes(Pace(3, 1.0))
    assert [obj["metadata"]["name"] for obj in made.initial() if "changing" in obj["metadata"]["name"]] == [
        "chaos-changing",
        "chaos-changing-2",
        "chaos-changing-3",
    ]
    assert [one.name for one in made.expected] == ["changing", "changing-2", "changing-3"]
    assert {made.next_name() for _ in range(5)} == {f"extra-{number}" for number in range(1, 6)}


def changes(pace: Pace) -> Changes:
    books = Books()
    return Changes(Stack(Path("unused")), books, [], Urls(1, {}), random.Random(1), pace=pace)
