"""What `penstock.dev/start-from` means."""

import pytest

from penstock.resources.delivery import RouteOptions, check_options

MADE = "2026-11-01T12:00:00Z"
MADE_AT = 1793534400.0


def annotated(value: str) -> dict[str, object]:
    return {"metadata": {"creationTimestamp": MADE, "annotations": {"penstock.dev/start-from": value}}}


@pytest.mark.parametrize(
    ("value", "since"),
    [
        ("earliest", 0.0),
        ("PT2H", MADE_AT - 7200),
        ("P1D", MADE_AT - 86400),
        ("1h30m", MADE_AT - 5400),
        ("2026-11-01T00:00:00Z", MADE_AT - 43200),
        ("2026-11-01T01:00:00.5+01:00", MADE_AT - 43199.5),
        ("P100Y", 0.0),
    ],
)
def test_a_start_in_the_past_is_understood(value: str, since: float) -> None:
    assert check_options(annotated(value)) == []
    assert RouteOptions.read(annotated(value)).since == since


@pytest.mark.parametrize("value", ["", "latest", "2 hours", "PT", "yesterday", "2026-13-01T00:00:00Z", "-1"])
def test_another_start_is_refused_and_counts_as_unset_where_nobody_refuses(value: str) -> None:
    (error,) = check_options(annotated(value))
    assert error.paths == ("metadata.annotations[penstock.dev/start-from]",)
    assert RouteOptions.read(annotated(value)).since is None


def test_without_it_a_route_begins_with_what_comes() -> None:
    assert RouteOptions.read({"metadata": {"creationTimestamp": MADE}}).since is None
