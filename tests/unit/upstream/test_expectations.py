"""The list of expectations, and the comparison with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.upstream.__main__ import EXPECTED, SHORT
from tools.upstream.expectations import PASS, BadExpectations, Expectation, differences, left_out, load
from tools.upstream.suite import FIRST, ONE_AFTER_ANOTHER
from tools.upstream.testlog import Ended, Outcome


def ended(test: str, outcome: Outcome) -> Ended:
    return Ended(test, outcome, 1.0, 1, 0, "")


EXPECTATIONS = {
    "TestBrokerA": PASS,
    "TestBrokerB": Expectation(fail="An inside is looked for"),
    "TestChannelC": Expectation(skip="Upstream leaves it out"),
    "TestChannelTLS": Expectation(needs="Certificates"),
}
AS_EXPECTED = [ended("TestBrokerA", "passed"), ended("TestBrokerB", "failed"), ended("TestChannelC", "skipped")]


def test_the_committed_list_can_be_read_and_gives_a_reason_for_all_that_does_not_pass() -> None:
    listed = load(EXPECTED)
    assert listed["TestBrokerConformance"] == PASS
    assert all(said.reason for said in listed.values() if said.standing != "passed")


def test_what_is_as_expected_differs_in_nothing() -> None:
    assert differences(EXPECTATIONS, AS_EXPECTED, ".", ["TestChannelTLS"]) == []


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (ended("TestBrokerA", "failed"), "TestBrokerA failed; expected: passed"),
        (ended("TestBrokerA", "skipped"), "TestBrokerA skipped by the suite; expected: passed"),
        (ended("TestBrokerB", "passed"), "TestBrokerB passed; expected: failed (An inside is looked for)"),
        (ended("TestBrokerNew", "passed"), "TestBrokerNew passed, and the expectations do not name it"),
    ],
)
def test_a_difference_in_either_direction_is_told(result: Ended, sentence: str) -> None:
    others = [one for one in AS_EXPECTED if one.test != result.test]
    assert differences(EXPECTATIONS, [*others, result], ".", ["TestChannelTLS"]) == [sentence]


def test_a_selected_test_that_did_not_run_is_told_and_one_that_was_not_selected_is_not() -> None:
    assert differences(EXPECTATIONS, AS_EXPECTED[:1], "Broker") == ["TestBrokerB did not run"]
    assert differences(EXPECTATIONS, AS_EXPECTED[:1], "TestBrokerA/some feature") == []


def test_tests_that_need_what_is_not_here_are_left_out() -> None:
    assert left_out(EXPECTATIONS, ".") == ["TestChannelTLS"]
    assert left_out(EXPECTATIONS, "TestBroker.*") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("TestA: passes", "Invalid enum value 'passes'"),
        ("TestA:\n  fails: because", "unknown field `fails`"),
        ("TestA:\n  fail: ''", "TestA needs one of fail, skip and needs"),
        ("TestA:\n  fail: because\n  skip: because", "TestA needs one of fail, skip and needs"),
        ("- TestA", "Expected `object`"),
    ],
)
def test_a_list_that_is_wrong_says_where(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "expectations.yaml"
    path.write_text(text)
    with pytest.raises(BadExpectations, match=complaint):
        load(path)


def test_tests_that_are_run_in_their_own_way_are_tests_of_the_suite() -> None:
    named = {*FIRST, *ONE_AFTER_ANOTHER, *SHORT}
    assert named - load(EXPECTED).keys() == set()
