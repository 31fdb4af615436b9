"""PingSources: what is accepted, in Knative's words what is not, and when their cron lines fire."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.pingsource import PingObservation, status_of
from penstock.resources.schedules import BadSchedule, check_fires, parse

Obj = dict[str, Any]
Admit = Callable[..., Obj]
Refusal = Callable[..., str]

BROKER = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "default"}}
NOW = "2026-01-01T00:00:00Z"


def ping(**spec: Any) -> Obj:
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"sink": BROKER, **spec}}


def moments(line: str, start: str, count: int, timezone: str = "") -> list[str]:
    second = int(datetime.fromisoformat(start).timestamp())
    zone = ZoneInfo(timezone) if timezone else UTC
    return [
        datetime.fromtimestamp(tick, zone).isoformat() for tick in islice(parse(line, timezone).after(second), count)
    ]


def test_without_a_schedule_it_fires_every_minute(admit: Admit) -> None:
    assert admit("PingSource", ping())["spec"]["schedule"] == "* * * * *"


@pytest.mark.parametrize(
    "schedule", ["*/2 * * * *", "0/5 * * * * *", "10 0/5 * * * ?", "@daily", "CRON_TZ=Asia/Tokyo 0 9 * * MON-fri"]
)
def test_what_knatives_scheduler_reads_is_accepted(admit: Admit, schedule: str) -> None:
    spec = ping(schedule=schedule, timezone="" if "TZ=" in schedule else "Europe/Paris")
    assert admit("PingSource", spec)["spec"]["schedule"] == schedule


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"schedule": "2"}, "invalid value: expected 5 to 6 fields, found 1: [2]: spec.schedule"),
        ({"schedule": "@every 5m"}, "invalid value: unsupported descriptor @every: spec.schedule"),
        ({"schedule": "@never"}, "invalid value: unrecognized descriptor: @never: spec.schedule"),
        ({"schedule": "60 * * * *"}, "invalid value: end of range (60) above maximum (59): 60: spec.schedule"),
        ({"schedule": "* * 0 * *"}, "invalid value: beginning of range (0) below minimum (1): 0: spec.schedule"),
        ({"schedule": "5-2 * * * *"}, "beginning of range (5) beyond end of range (2): 5-2: spec.schedule"),
        ({"schedule": "*/0 * * * *"}, "step of range should be a positive number: */0: spec.schedule"),
        ({"schedule": "1-2-3 * * * *"}, "too many hyphens: 1-2-3: spec.schedule"),
        ({"schedule": "1/2/3 * * * *"}, "too many slashes: 1/2/3: spec.schedule"),
        (
            {"schedule": "x * * * *"},
            'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax: spec.schedule',
        ),
        ({"schedule": "0 0 30 2 *"}, "invalid value: schedule never fires: spec.schedule"),
        ({"schedule": ", * * * *"}, "invalid value: schedule never fires: spec.schedule"),
        (
            {"timezone": "Knative/Land"},
            "invalid value: provided bad location Knative/Land: unknown time zone Knative/Land: spec.timezone",
        ),
        ({"timezone": "../etc/passwd"}, "spec.timezone"),
        ({"sink": {}}, "expected at least one, got none: spec.sink.ref, spec.sink.uri"),
        ({"data": "a", "dataBase64": "YQ=="}, "expected exactly one, got both: spec.data, spec.dataBase64"),
        ({"dataBase64": "$$$ no $$$"}, "invalid value: illegal base64 data at input byte 0: spec.dataBase64"),
        (
            {"contentType": "application/json", "data": "Invalid JSON"},
            "invalid value: invalid character 'I' looking for beginning of value: spec.data",
        ),
        (
            {"contentType": "application/json", "dataBase64": base64.b64encode(b"Invalid JSON").decode()},
            "invalid value: invalid character 'I' looking for beginning of value: spec.dataBase64",
        ),
        (
            {"contentType": "application/json", "data": "[1]"},
            "json: cannot unmarshal array into Go value of type map[string]interface {}: spec.data",
        ),
        (
            {"ceOverrides": {"extensions": {"no-dash": "x"}}},
            'invalid key name "no-dash": spec.ceOverrides.extensions\nkeys are expected to be alphanumeric',
        ),
    ],
)
def test_what_cannot_work_is_refused_in_knatives_words(refusal: Refusal, spec: Obj, complaint: str) -> None:
    assert complaint in refusal("PingSource", ping(**spec))


def test_the_size_of_data_can_be_limited(refusal: Refusal, admit: Admit) -> None:
    limited = {"configmaps": {"config-ping-defaults": {"data-max-size": "4"}}}
    assert "the data length of 5 bytes exceeds limit set at 4.: spec.data" in refusal(
        "PingSource", ping(data="12345"), **limited
    )
    admit("PingSource", ping(data="12345"))


def test_seconds_stars_and_days_mean_what_knatives_scheduler_means() -> None:
    assert moments("0/20 * * * * *", "2026-01-01T00:00:30+00:00", 2) == [
        "2026-01-01T00:00:40+00:00",
        "2026-01-01T00:01:00+00:00",
    ]
    # Both days are restricted: either is enough. A step makes a star a restriction.
    assert [m[:10] for m in moments("0 0 13 * FRI", "2026-02-01T00:00:00+00:00", 3)] == [
        "2026-02-06",
        "2026-02-13",
        "2026-02-20",
    ]
    assert [m[:10] for m in moments("0 0 */15 * FRI", "2026-02-03T00:00:00+00:00", 2)] == ["2026-02-06", "2026-02-13"]
    assert [m[:10] for m in moments("0 0 * * 1", "2026-02-03T00:00:00+00:00", 2)] == ["2026-02-09", "2026-02-16"]


def test_an_hour_that_the_clocks_skip_has_no_ticks() -> None:
    assert moments("30 2 * * *", "2026-03-28T00:00:00+01:00", 2, "Europe/Paris") == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_leap_days_come() -> None:
    assert moments("0 0 29 2 *", "2026-01-01T00:00:00+00:00", 1) == ["2028-02-29T00:00:00+00:00"]
    with pytest.raises(BadSchedule, match="never fires"):
        check_fires(parse("0 0 31 4,6,9,11 *"), 0)


def test_a_source_with_a_sink_is_ready_and_says_what_it_sends() -> None:
    status = status_of(ping(), PingObservation(ResolvedAddress("http://sink")), NOW)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Deployed": "True",
        "OIDCIdentityCreated": "True",
        "Ready": "True",
        "SinkProvided": "True",
    }
    assert status["sinkUri"] == "http://sink"
    assert status["ceAttributes"] == [
        {"type": "dev.knative.sources.ping", "source": "/apis/v1/namespaces/ns/pingsources/p"}
    ]


def test_a_sink_that_is_missing_or_takes_nothing_is_told() -> None:
    status = status_of(ping(), PingObservation(Unresolved("gone")), NOW)
    sink = next(c for c in status["conditions"] if c["type"] == "SinkProvided")
    assert (sink["status"], sink["reason"], sink["message"]) == ("False", "NotFound", "gone")
    waiting = status_of(ping(), PingObservation(ResolvedAddress("http://sink"), trouble="events wait"), NOW)
    accepted = next(c for c in waiting["conditions"] if c["type"] == "EventsAccepted")
    assert (accepted["status"], accepted["severity"]) == ("False", "Warning")
    assert next(c for c in waiting["conditions"] if c["type"] == "Ready")["status"] == "True"
