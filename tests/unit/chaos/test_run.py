"""What is measured and reported, and what a subscriber calls an event of the run."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tools.chaos import report, routes
from tools.chaos.books import Sent
from tools.chaos.checker import Findings, Lost
from tools.chaos.events import ASK, CHANNEL, SENDERS, answer_to, key_of, of_key, parse, type_of
from tools.chaos.plan import Fault, Way
from tools.chaos.receiver import FINE, REPLYING, data_of, fault_of, headers_of, manners_of, reply
from tools.chaos.recovery import Recovery
from tools.chaos.results import Outcome, Result


def outcome(victim: str, way: Way, recovery: float | None, *, hurried: bool = False) -> Outcome:
    return Outcome(Fault(1, victim, way, 0.0, hurried, 0.0), 0.0, recovery, recovery and recovery / 2)


def test_recovery_is_the_first_delivery_of_an_event_accepted_after_the_fault() -> None:
    sent = Sent()
    recovery = Recovery(sent, frozenset({"all"}))
    for number, moment in ((1, 5.0), (2, 11.0)):
        sent.begin(number, moment)
        sent.accept(number, moment)
    recovery.watch(10.0)
    recovery.delivered("all", 1, 12.0)
    recovery.delivered("slow", 2, 13.0)
    assert not recovery.seen, "one is too old, the other went to a subscriber that does not count"
    recovery.delivered("all", 2, 14.0)
    assert recovery.seen == 14.0


def test_silence_is_the_longest_time_without_a_delivery_since_the_fault_began() -> None:
    sent = Sent()
    recovery = Recovery(sent, frozenset({"all"}))
    for number in range(4):
        sent.begin(number, 20.0)
        sent.accept(number, 20.0)
    recovery.delivered("all", 0, 1.0)
    recovery.begin(10.0)
    recovery.delivered("all", 1, 13.0)
    recovery.watch(15.0)
    recovery.delivered("all", 2, 21.0)
    recovery.delivered("all", 3, 90.0)
    assert recovery.silence == 8.0


def test_an_event_that_arrives_before_its_202_counts_with_the_202() -> None:
    sent = Sent()
    recovery = Recovery(sent, frozenset({"all"}))
    sent.begin(1, 9.0)
    recovery.watch(10.0)
    recovery.delivered("all", 1, 10.5)
    assert not recovery.seen
    sent.accept(1, 10.6)
    recovery.accepted(1, 10.6)
    assert recovery.seen == 10.6


def test_figures_are_by_victim_and_way_and_leave_compound_faults_apart() -> None:
    outcomes = [
        outcome("kafka", Way.KILL, 4.0),
        outcome("kafka", Way.KILL, 9.0),
        outcome("kafka", Way.KILL, 5.0),
        outcome("kafka", Way.TERM, None),
        outcome("ingress", Way.KILL, 30.0, hurried=True),
    ]
    figures = report.summary(outcomes)
    assert figures["kafka, SIGKILL"] == {"faults": 3, "p50": 5.0, "worst": 9.0, "silence": 4.5}
    assert figures["kafka, SIGTERM"] == {"faults": 1, "p50": None, "worst": None, "silence": None}
    assert figures["during another's recovery"]["worst"] == 30.0


def test_a_run_fails_with_what_was_lost_and_its_trail() -> None:
    result = Result(1, 100.0, 1, outcomes=[outcome("kafka", Way.KILL, 4.0)])
    assert result.passed
    result.findings = Findings(lost=[Lost("all", "7")])
    result.trails = {"7": ["penstock.events 0/12"]}
    assert not result.passed
    assert report.failures(result) == ["LOST: event 7 did not reach all", "    penstock.events 0/12"]


def test_the_report_is_written_for_people_and_for_programs(tmp_path: Path) -> None:
    findings = Findings(lost=[Lost("all", "7")], duplicates={"all": 3})
    report.write(Result(1, 100.0, 1, outcomes=[outcome("kafka", Way.KILL, 4.0)], findings=findings), tmp_path)
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["findings"]["duplicates"] == {"all": 3}
    assert written["findings"]["lost"] == [{"subscriber": "all", "id": "7"}]
    assert written["outcomes"][0]["fault"]["way"] == "SIGKILL"
    assert "| delivered again | 3 |" in (tmp_path / "report.md").read_text()


def test_a_run_that_ended_early_fails() -> None:
    assert not Result(1, 100.0, 2, outcomes=[outcome("kafka", Way.KILL, 4.0)]).passed


def test_the_figures_replace_those_of_the_last_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.publish(Result(42, 100.0, 1, outcomes=[outcome("kafka", Way.KILL, 4.0)]), page)
    text = page.read_text()
    assert "old" not in text
    assert "| kafka | SIGKILL | 1 | 4.0 | 4.0 | 2.0 |" in text
    assert (text[:7], text[-6:]) == ("before\n", "after\n")


def test_every_sender_sends_every_type() -> None:
    types = {type_of(number) for number in range(1000)}
    assert all({type_of(number) for number in of_key(sender, 1000)} == types for sender in range(SENDERS))


@pytest.mark.parametrize("number", range(0, 64, 7))
def test_an_event_is_known_again_and_nothing_else_is(number: int) -> None:
    headers, body = headers_of(number), data_of(number)
    assert fault_of(str(number), headers, body) is None
    assert fault_of(str(number + 1), headers, body) is not None
    assert fault_of(str(number), {**headers, "ce-partitionkey": "other"}, body) is not None
    assert fault_of(str(number), headers, data_of(number + 1)) is not None
    assert fault_of("x", headers, body) is not None


def test_a_reply_is_an_event_of_the_run() -> None:
    number = next(n for n in range(100) if type_of(n) == ASK)
    headers, body = reply(str(number))
    assert parse(headers["ce-id"]) == (number, True)
    assert (headers["ce-type"], headers.get("ce-partitionkey")) == (answer_to(ASK), key_of(number))
    assert fault_of(f"r{number}", headers, body) is None


def test_flaky_subscribers_fail_in_many_ways_and_take_most() -> None:
    chance = random.Random(1)
    drawn = [manners_of("flaky", chance) for _ in range(2000)]
    assert len(set(drawn)) == 6
    assert 0.7 < sum(manners.takes for manners in drawn) / len(drawn) < 0.9
    assert manners_of("all", chance) is FINE
    assert manners_of("asks", chance) is REPLYING


def test_what_routes_match_is_what_their_subscribers_must_get() -> None:
    expected = {one.name: one for one in routes.expectations()}
    assert "dead" not in expected, "nobody is there"
    dead = next(route for route in routes.STEADY if route.dead)
    assert expected[routes.DEAD_LETTERS].eras[0].types == dead.types
    assert expected["channel"].eras[0].types == {CHANNEL}
    assert {name for name, one in expected.items() if one.ordered} == {
        "ordered",
        "ordered-flaky",
        "asks",
        "answers",
        "channel",
    }
    assert expected.keys() >= routes.HEALTHY


def test_manifests_lead_to_the_subscribers() -> None:
    urls = routes.Urls(1000, {routes.COMES_AND_GOES: 2000})
    made = {route.name: routes.manifest(route, urls) for route in routes.STEADY}
    assert made["all"]["spec"]["subscriber"] == {"uri": "http://127.0.0.1:1000/all"}
    assert made[routes.COMES_AND_GOES]["spec"]["subscriber"] == {"uri": "http://127.0.0.1:2000/comes-and-goes"}
    assert made["dead"]["spec"]["delivery"]["deadLetterSink"] == {"uri": "http://127.0.0.1:1000/dead-letters"}
    assert made["channel-asks"]["spec"]["reply"] == {"uri": "http://127.0.0.1:1000/channel-answers"}
    assert made["flaky"]["spec"]["filters"][0]["cesql"].startswith("type IN ('chaos.heavy'")
