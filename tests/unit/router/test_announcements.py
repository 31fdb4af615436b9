"""What the router tells the control plane and whoever asks for its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.contract.routes import Route
from penstock.router.generations.generations import Generation
from penstock.router.generations.positions import LostRange, StartOffsets
from penstock.router.reports import REASONS_BYTES, Announcements, shortened
from tests.unit.router.generations_double import QueryDouble


class ReporterDouble:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.acks: list[tuple[int, Mapping[str, str]]] = []
        self.losses: list[tuple[str, int, int, int]] = []

    def ack(self, version: int, refused: Mapping[str, str]) -> None:
        self.acks.append((version, refused))

    def loss(self, route: str, partition: int, first: int, last: int) -> None:
        self.losses.append((route, partition, first, last))


def generation(number: int, version: int, refused: dict[str, str]) -> Generation:
    routes = {uid: Route(uid, "Trigger", "ns", uid, "b") for uid in ("a", "b", "c")}
    return Generation(number, version, routes, QueryDouble(number, StartOffsets(()), 0, lambda ended: None), refused)


def test_a_live_generation_is_acknowledged_with_the_routes_it_does_without() -> None:
    reporter, status = ReporterDouble(), dict[str, Any](generation=0)
    announcements = Announcements(reporter, status)  # type: ignore[arg-type]
    announcements.live(generation(3, 7, {"b": "too large"}))
    announcements.live(generation(3, 8, {}))
    assert reporter.acks == [(7, {"b": "too large"}), (8, {})]
    assert status == {"generation": 3, "version": 8, "routes": 3, "refused": 0}


def test_a_refused_route_is_logged_once_however_often_it_is_refused(capsys: Any) -> None:
    announcements = Announcements(ReporterDouble(), {"generation": 0})  # type: ignore[arg-type]
    for version in (7, 8):
        announcements.live(generation(version, version, {"b": "too large"}))
    assert capsys.readouterr().out.count("cannot be served") == 1


def test_a_loss_is_reported_by_route_and_range() -> None:
    reporter = ReporterDouble()
    announcements = Announcements(reporter, {"generation": 0})  # type: ignore[arg-type]
    announcements.lost(Route("a", "Trigger", "ns", "a", "b"), LostRange(2, 10, 19))
    assert reporter.losses == [("a", 2, 10, 19)]


def test_reasons_are_cut_so_that_they_fit_into_one_report_however_many_there_are() -> None:
    assert shortened({"a": "why"}) == {"a": "why"}
    assert shortened({}) == {}
    many = shortened({str(number): "é" * 300 for number in range(10_000)})
    assert sum(len(reason.encode()) for reason in many.values()) <= REASONS_BYTES
    assert many["7"].startswith("éé")
