"""The condition Delivering and `status.delivery`: a diagnosis that does not touch Ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing, decode
from penstock.destinations import Destinations
from penstock.resources.conditions import conclude, find, true
from penstock.resources.delivery_status import DeliveryState, cause, delivering_finding, delivery_fields
from penstock.settings import Settings

ROOT = Path(__file__).parents[3]
FAILING = DeliveryState(
    lag=3,
    outstanding=3,
    oldest=1_700_000_000.0,
    succeeded=1_699_999_000.0,
    failures=17,
    since=1_700_000_001.0,
    reason="no connection to http://127.0.0.1:9000: [Errno 111] Connect call failed ('127.0.0.1', 9000)",
    cause=FailureCause.CONNECTION_REFUSED,
    url="http://127.0.0.1:9000/",
)


def test_nothing_is_said_before_the_first_attempt() -> None:
    assert delivering_finding(None, paused=False) == []
    assert delivering_finding(DeliveryState(lag=4), paused=False) == []
    assert delivery_fields(None, paused=False) == {}


def test_a_subscriber_that_is_down_warns_and_leaves_ready_alone() -> None:
    [finding] = delivering_finding(FAILING, paused=False)
    assert (finding.status, finding.reason, finding.severity) == ("False", "ConnectionRefused", "Warning")
    assert finding.message.startswith("http://127.0.0.1:9000/ refuses connections since 2023-11-14T22:13:21Z")
    conditions = conclude([], [true("BrokerReady"), finding], "now")
    assert (find(conditions, "Ready") or {})["status"] == "True"


def test_a_destination_that_the_settings_refuse_is_not_taken_for_one_that_is_down() -> None:
    refusal = Destinations(Settings()).refusal("", "169.254.169.254")
    reason, refused = f"no connection to 169.254.169.254:80: {refusal}", FailureCause.DESTINATION_REFUSED
    state = DeliveryState(**{**FAILING.__dict__, "reason": reason, "cause": refused})
    [finding] = delivering_finding(state, paused=False)
    assert finding.reason == "DestinationRefused"
    assert "is a destination that the settings forbid" in finding.message
    assert "link-local" in finding.message


def test_the_message_does_not_move_with_the_numbers() -> None:
    more = DeliveryState(**{**FAILING.__dict__, "failures": 40, "lag": 9, "due": 5.0})
    assert delivering_finding(more, paused=False) == delivering_finding(FAILING, paused=False)


def test_the_fields_hold_the_numbers() -> None:
    assert delivery_fields(FAILING, paused=False)["delivery"] == {
        "lag": 3,
        "outstanding": 3,
        "oldestEventTime": "2023-11-14T22:13:20Z",
        "lastSuccessTime": "2023-11-14T21:56:40Z",
        "consecutiveFailures": 17,
        "failingSince": "2023-11-14T22:13:21Z",
        "lastFailure": {"url": FAILING.url, "message": FAILING.reason},
    }


def test_what_succeeds_says_so_and_no_more() -> None:
    state = DeliveryState(succeeded=1_700_000_000.0)
    [finding] = delivering_finding(state, paused=False)
    assert (finding.status, finding.reason, finding.severity) == ("True", "", "")
    assert delivery_fields(state, paused=False)["delivery"] == {
        "lag": 0,
        "outstanding": 0,
        "lastSuccessTime": "2023-11-14T22:13:20Z",
    }


def test_a_pause_is_meant_and_no_warning() -> None:
    [finding] = delivering_finding(None, paused=True)
    assert (finding.status, finding.reason, finding.severity) == ("False", "Paused", "Info")
    assert delivery_fields(None, paused=True)["delivery"] == {"lag": 0, "outstanding": 0, "paused": True}


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (503, "HTTP status 503", ("HTTPStatus503", "returns 503 Service Unavailable")),
        (799, "HTTP status 799", ("HTTPStatus799", "returns 799")),
        (
            200,
            "the reply is larger than an event may be",
            ("ReplyRefused", "returns 200, but the reply is larger than an event may be"),
        ),
    ],
)
def test_an_answer_is_shown_by_its_status(status: int, reason: str, expected: tuple[str, str]) -> None:
    assert cause(DeliveryState(failures=1, status=status, reason=reason)) == expected


@pytest.mark.parametrize("found", FailureCause)
def test_without_an_answer_the_reason_is_the_cause_and_documented(found: FailureCause) -> None:
    reason, does = cause(DeliveryState(failures=1, reason="certificate refused, closed", cause=found))
    assert reason == found.value
    assert does
    assert f"`{found.value}`" in (ROOT / "docs" / "failures.md").read_text()


HOSTS = ("closed-beta.shop", "tls-gateway.shop", "refused-orders", "certificate-store.shop")


@pytest.mark.parametrize("host", HOSTS)
def test_the_words_of_a_host_name_are_not_taken_for_the_cause(host: str) -> None:
    state = DeliveryState(
        failures=1,
        reason=f"no connection to {host}:80: not found",
        cause=FailureCause.NAME_NOT_FOUND,
        url=f"http://{host}/",
    )
    [finding] = delivering_finding(state, paused=False)
    assert finding.reason == "NameNotFound"
    assert finding.message.startswith(f"http://{host}/ has a host name that does not resolve")


def test_a_cause_that_this_version_does_not_know_does_not_make_the_report_unreadable() -> None:
    report = decode("standing/r/one", b'{"route":"r","instance":"one","at":1.0,"failures":1,"cause":"MoonPhase"}')
    assert isinstance(report, Standing)
    assert report.cause is FailureCause.DELIVERY_FAILED
