"""The judgement over observations: on those that the document prints, and on everything that can be wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.conformance import catalog
from penstock.conformance.catalog import TESTS, DeliveryTest, find, parse
from penstock.conformance.judging import enough, judge, read

DOCUMENT = catalog.path().read_text()
OUTPUTS = [json.loads(line) for line in DOCUMENT.splitlines() if line.startswith("{")]
"""All outputs of the document, in its order."""
BULLETS = list(re.finditer(r"^ *- (?:Kind|Sequence|Time): .+$", DOCUMENT, re.MULTILINE))

Report = dict[str, Any]
Path = tuple[str, ...]

OF_ONE_RUN: set[Path] = {
    ("origin",),
    ("observer",),
    ("time",),
    ("event", "knativearrivaltime"),
    ("httpHeaders", "Traceparent"),
    ("httpHeaders", "User-Agent"),
}
"""What must be there, with any value of its kind."""
OLD_DESTINATION = "http://broker-filter.knative-eventing"
DESTINATION = "http://sink-3nack.conformance.svc.cluster.local"


def known(number: str) -> DeliveryTest:
    found = find(number)
    assert found is not None
    return found


LINEAR, DEAD_LETTER, REPLIED = known("05"), known("10"), known("11")


def component(output: Report) -> str:
    return str(output["httpHeaders"]["Host"][0]).partition(".")[0]


def of_today(test: DeliveryTest, output: Report) -> Report:
    """An output with what has changed in Brokers since it was printed."""
    report = deepcopy(output)
    event = report["event"]
    if event.get("knativeerrordest", "").startswith(OLD_DESTINATION):
        event["knativeerrordest"] = DESTINATION
    if test.kind == "Trigger" and "knativeerrorcode" not in event:
        report["httpHeaders"]["Prefer"] = ["reply"]
    return report


PLACES = [(test, place) for test in TESTS for place in range(sum(len(sink.observations) for sink in test.sinks))]
"""Each output's test, and its place among the outputs of that test."""
IDS = [f"{test.number}-{place + 1}" for test, place in PLACES]


def reports(test: DeliveryTest) -> list[Report]:
    """What a run that goes well reports: what the document prints."""
    return [of_today(test, output) for output, (of, _) in zip(OUTPUTS, PLACES, strict=True) if of.number == test.number]


def judged(test: DeliveryTest, seen: list[Report], namespace: str = "conformance", late: float = 1.0) -> list[str]:
    observed: dict[str, list[str]] = {}
    for printed, report in zip(reports(test), seen, strict=False):
        observed.setdefault(component(printed), []).append(json.dumps(report))
    return judge(test, namespace, {name: read(messages) for name, messages in observed.items()}, late)


def changed(test: DeliveryTest, place: int, change: Callable[[Report], None]) -> list[str]:
    seen = reports(test)
    change(seen[place])
    return judged(test, seen)


def leaves(report: Report, inside: Path = ()) -> Iterator[Path]:
    for name, value in report.items():
        path = (*inside, name)
        if isinstance(value, dict) and path != ("event", "data"):
            yield from leaves(value, path)
        yield path


def parent(report: Report, path: Path) -> Report:
    for name in path[:-1]:
        report = report[name]
    return report


def another(value: Any) -> Any:
    if isinstance(value, list):
        return [another(value[0])]
    if isinstance(value, dict):
        return value | {"more": 1}
    return value + 1 if isinstance(value, int) else value + "x"


def test_the_document_has_thirteen_tests_with_thirty_three_outputs() -> None:
    assert (len(TESTS), len(OUTPUTS), len(BULLETS)) == (13, 33, 86)
    assert [test.number for test in TESTS] == [f"{number:02d}" for number in range(1, 14)]
    assert find("5") == find("05") == find("event-delivery/05")
    assert find("14") is None
    headings = re.findall(r"^## \[Test\] (.+?)\.?$", DOCUMENT, re.MULTILINE)
    assert [test.title for test in TESTS] == headings
    assert [expected.output for test in TESTS for sink in test.sinks for expected in sink.observations] == OUTPUTS


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.number)
def test_what_the_document_prints_passes(test: DeliveryTest) -> None:
    assert judged(test, reports(test)) == []


@pytest.mark.parametrize(("test", "place"), PLACES, ids=IDS)
def test_nothing_that_the_document_prints_may_be_missing(test: DeliveryTest, place: int) -> None:
    printed = OUTPUTS[PLACES.index((test, place))]
    for path in leaves(printed):
        assert changed(test, place, lambda report, path=path: parent(report, path).pop(path[-1])), path  # type: ignore[misc]


@pytest.mark.parametrize(("test", "place"), PLACES, ids=IDS)
def test_what_is_the_same_in_every_run_may_not_differ(test: DeliveryTest, place: int) -> None:
    printed = OUTPUTS[PLACES.index((test, place))]
    compared = set(leaves(printed)) - OF_ONE_RUN - {("event",), ("httpHeaders",)}
    for path in compared:

        def alter(report: Report, path: Path = path) -> None:
            inside = parent(report, path)
            inside[path[-1]] = another(inside[path[-1]])

        assert changed(test, place, alter), path


@pytest.mark.parametrize(("test", "place"), PLACES, ids=IDS)
def test_what_is_of_one_run_is_of_its_kind(test: DeliveryTest, place: int) -> None:
    printed = OUTPUTS[PLACES.index((test, place))]
    for path in OF_ONE_RUN & set(leaves(printed)):
        wrongs: list[Any] = ["", [], [""], ["a", "b"], {}]
        for wrong in wrongs:
            change = {path[-1]: wrong}
            assert changed(test, place, lambda report, p=path, c=change: parent(report, p).update(c)), (path, wrong)  # type: ignore[misc]


def test_a_document_whose_bullets_and_outputs_disagree_is_refused() -> None:
    for bullet in BULLETS:
        if "Time" in bullet[0]:
            continue
        other = re.sub("Rejected|Received", "x", bullet[0]).replace("Sequence: ", "Sequence: 9")
        for replacement in (other, ""):
            with pytest.raises(ValueError, match="the document says"):
                parse(DOCUMENT[: bullet.start()] + replacement + DOCUMENT[bullet.end() :])


LATER = [
    (test, place, expected.gap)
    for test in TESTS
    for place, expected in enumerate(expected for sink in test.sinks for expected in sink.observations)
    if expected.gap is not None
]


@pytest.mark.parametrize(
    ("test", "place", "gap"), LATER, ids=[f"{test.number}-{place + 1}" for test, place, _ in LATER]
)
def test_every_retry_comes_in_its_time(test: DeliveryTest, place: int, gap: float) -> None:
    def shifted(seconds: float) -> list[str]:
        seen = reports(test)
        for report in seen[place:]:
            moment = datetime.fromisoformat(report["time"][:26] + "+00:00") + timedelta(seconds=seconds)
            report["time"] = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return judged(test, seen)

    assert shifted(0) == []
    assert shifted(1.1)
    if gap:
        assert shifted(-0.2)


def test_times_are_those_of_the_bullets() -> None:
    times = [bullet for bullet in BULLETS if "Time: \\<previous" in bullet[0]]
    assert len(times) == len(LATER) == 15
    for bullet in times:
        later = "  - Time: \\<previous event time\\> + roundtrip delay + 19 seconds."
        altered = parse(DOCUMENT[: bullet.start()] + later + DOCUMENT[bullet.end() :])
        [test] = [test for test, was in zip(altered, TESTS, strict=True) if test != was]
        [problem] = judged(test, reports(known(test.number)))
        assert "expected 19 s" in problem


def test_a_retry_may_come_as_much_later_as_was_said() -> None:
    seen = reports(LINEAR)
    seen[3]["time"] = "2021-10-06T20:19:33.886121214Z"
    assert judged(LINEAR, seen, late=2.1) == []
    [problem] = judged(LINEAR, seen, late=2.0)
    assert problem == "sink-3nack: attempt 4 was 6.012 s after the one before; expected 4 s (-0.1 s, +2 s)"


def test_observations_are_read_in_the_order_of_their_times() -> None:
    messages = [json.dumps(report) for report in reversed(reports(LINEAR))]
    assert [seen.sequence for seen in read([*messages, "no json", "{}", "[]", "1"])] == [1, 2, 3, 1]


def test_what_is_different_is_said() -> None:
    def problem(change: Callable[[Report], None]) -> list[str]:
        return changed(LINEAR, 3, change)

    assert problem(lambda report: report["event"].update(id="2")) == ["sink-3nack: event.id is '2', expected '1'"]
    assert problem(lambda report: report["httpHeaders"].pop("Accept-Encoding")) == [
        "sink-3nack: httpHeaders.Accept-Encoding is missing"
    ]
    assert problem(lambda report: report.update(sequence=2)) == [
        "sink-3nack: expected Rejected 1, Rejected 2, Rejected 3, Received 1, "
        "observed Rejected 1, Rejected 2, Rejected 3, Received 2",
        "sink-3nack: sequence is 2, expected 1",
    ]


@pytest.mark.parametrize("count", [0, 3, 5])
def test_there_are_as_many_observations_as_the_document_says(count: int) -> None:
    seen = reports(LINEAR)
    seen.append(seen[3] | {"time": "2021-10-06T20:19:33Z"})
    observed = {"sink-3nack": read(json.dumps(report) for report in seen[:count])}
    problems = judge(LINEAR, "conformance", observed)
    assert problems[0].startswith("sink-3nack: expected Rejected 1, Rejected 2, Rejected 3, Received 1, observed ")


@pytest.mark.parametrize(
    ("parents", "complaint"),
    [
        (["00-a-1-00", "00-a-2-00", "00-a-3-00", "00-a-4-00"], ""),
        (["00-a-1-00", "00-b-2-00", "00-a-3-00", "00-a-4-00"], "different traces"),
        (["00-a-1-00", "00-a-1-00", "00-a-3-00", "00-a-4-00"], "share a span"),
        (["00-a-1-00", "00-a-2-01", "00-a-3-00", "00-a-4-00"], "Traceparent is"),
        (["01-a-1-00", "00-a-2-00", "00-a-3-00", "00-a-4-00"], "Traceparent is"),
        (["nonsense", "00-a-2-00", "00-a-3-00", "00-a-4-00"], "Traceparent is"),
        (["00-0-1-00", "00-0-2-00", "00-0-3-00", "00-0-4-00"], "Traceparent is"),
    ],
)
def test_attempts_belong_to_one_trace(parents: list[str], complaint: str) -> None:
    seen = reports(LINEAR)
    for report, text in zip(seen, parents, strict=True):
        parts = text.split("-")
        long = [parts[0], parts[1] * 32, parts[2] * 16, parts[3]] if len(parts) == 4 else parts
        report["httpHeaders"]["Traceparent"] = ["-".join(long)]
    problems = " ".join(judged(LINEAR, seen))
    assert complaint in problems
    assert bool(problems) is bool(complaint)


@pytest.mark.parametrize(
    "test", [known("09"), known("10"), known("11"), known("12"), known("13")], ids=lambda t: t.number
)
def test_dead_letters_and_replies_stay_in_the_trace_of_the_event(test: DeliveryTest) -> None:
    def alter(report: Report) -> None:
        [parent] = report["httpHeaders"]["Traceparent"]
        report["httpHeaders"]["Traceparent"] = [parent[:3] + "a" * 32 + parent[35:]]

    assert changed(test, -1, alter) == ["requests for one event belong to different traces"]


@pytest.mark.parametrize("test", [known("09"), known("10"), known("11"), known("13")], ids=lambda test: test.number)
def test_only_subscribers_are_asked_for_replies(test: DeliveryTest) -> None:
    eager = changed(test, -1, lambda report: report["httpHeaders"].update(Prefer=["reply"]))
    assert [problem.partition(": ")[2] for problem in eager] == ["httpHeaders.Prefer is ['reply'], expected None"]
    assert changed(test, 0, lambda report: report["httpHeaders"].pop("Prefer"))


def test_a_reply_comes_from_the_pod_that_replied() -> None:
    seen = reports(REPLIED)
    seen[0]["observer"] = "sink-ack-reply-other"
    [problem] = judged(REPLIED, seen)
    assert problem == "sink-ack: event.source is 'sink-ack-reply-g8t6h', expected 'sink-ack-reply-other'"
    seen[1]["event"]["source"] = "sink-ack-reply-other"
    assert judged(REPLIED, seen) == []


@pytest.mark.parametrize("observer", ["sink-ack-1", "sink-3nack", "other-sink-3nack-1", "sink-3nack-a-b"])
def test_an_observer_is_a_pod_of_its_sink(observer: str) -> None:
    seen = reports(LINEAR)
    for report in seen:
        report["observer"] = observer
    assert judged(LINEAR, seen) == [f"sink-3nack: observer is {observer!r}, expected the name of a Pod of sink-3nack"]


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.number)
def test_a_test_that_was_moved_names_its_own_namespace(test: DeliveryTest) -> None:
    moved = json.loads(json.dumps(reports(test)).replace(".conformance.svc", ".elsewhere.svc"))
    assert judged(test, moved, "elsewhere") == []
    assert judged(test, reports(test), "elsewhere")


def test_the_failed_destination_is_the_subscriber_and_not_a_part_of_the_broker() -> None:
    seen = reports(DEAD_LETTER)
    seen[1]["event"]["knativeerrordest"] = OUTPUTS[PLACES.index((DEAD_LETTER, 1))]["event"]["knativeerrordest"]
    assert "event.knativeerrordest" in judged(DEAD_LETTER, seen)[0]


def test_enough_is_as_many_as_expected_at_every_sink() -> None:
    seen = read(json.dumps(report) for report in reports(LINEAR))
    assert enough(LINEAR, {"sink-3nack": seen})
    assert not enough(LINEAR, {"sink-3nack": seen[:3]})
    assert not enough(DEAD_LETTER, {"sink-3nack": seen})
