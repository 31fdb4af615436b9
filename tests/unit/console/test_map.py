"""The map: what leads where, where it stands, and that thousands of routes stay readable."""

from __future__ import annotations

import time

import pytest

from penstock.console.map.graph import bands_of, wants_of
from penstock.console.map.layout import EASY, HEIGHT, PAGE, TROUBLES, Box, Drawing, drawing_of
from penstock.console.map.page import narrowed
from tests.unit.console.console_client import MakeClient
from tests.unit.console.known_api import KnownApi, broker, trigger


def many(brokers: int, routes: int) -> KnownApi:
    objects = [broker(f"b{number}") for number in range(brokers)]
    objects += [trigger(f"t{number}", broker=f"b{number % brokers}") for number in range(routes)]
    return KnownApi(*objects)


def drawn(api: KnownApi, *opened: str) -> Drawing:
    routes = [obj for obj in api.objects if obj["kind"] in ("Trigger", "Subscription")]
    return drawing_of(bands_of([obj for obj in api.objects if obj not in routes], routes), opened)


def overlapping(drawing: Drawing) -> list[tuple[str, str]]:
    def meet(one: Box, other: Box) -> bool:
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        return not beside and abs(one.y - other.y) < HEIGHT

    boxes = drawing.boxes
    return [(a.key, b.key) for at, a in enumerate(boxes) for b in boxes[at + 1 :] if meet(a, b)]


@pytest.mark.parametrize(("brokers", "routes"), [(1, 0), (1, 1), (2, 3), (3, EASY), (4, 200)])
def test_boxes_stand_beside_each_other_and_lines_lead_from_box_to_box(brokers: int, routes: int) -> None:
    drawing = drawn(many(brokers, routes))
    assert overlapping(drawing) == []
    assert all(box.x >= 0 and box.x + box.width <= drawing.width for box in drawing.boxes)
    assert all(box.y + HEIGHT <= drawing.height for box in drawing.boxes)
    assert {line.begin for line in drawing.lines} <= {box.right for box in drawing.boxes}
    assert {line.end for line in drawing.lines} <= {box.left for box in drawing.boxes}
    assert drawing.routes == routes


def test_routes_to_one_subscriber_share_its_box() -> None:
    one = {"subscriber": {"ref": {"kind": "Service", "name": "mail"}}}
    drawing = drawn(KnownApi(broker(), trigger("a", spec=one), trigger("b", spec=one)))
    (mail,) = [box for box in drawing.boxes if box.column == "subscriber"]
    assert (mail.title, mail.detail) == ("mail", "Service")
    assert len([line for line in drawing.lines if line.end == mail.left]) == 2


def test_a_dead_letter_sink_is_drawn_where_there_is_one() -> None:
    drawing = drawn(KnownApi(broker(), trigger("a", deadLetterSinkUri="http://dead/letters"), trigger("b")))
    assert [box.title for box in drawing.boxes if box.column == "dead"] == ["dead"]
    assert [line.key for line in drawing.lines if line.kind == "dead"] == ["Trigger/default/a"]


def test_many_routes_are_folded_and_those_in_trouble_are_not() -> None:
    api = many(2, 400)
    api.objects += [trigger(f"broken{number}", broker="b1", failing="refused") for number in range(TROUBLES + 2)]
    drawing = drawn(api)
    summaries = [box for box in drawing.boxes if box.is_summary]
    assert sorted(len(box.members) for box in summaries) == [200, 202]
    assert next(box for box in summaries if box.opens.endswith("b1")).state == "failing"
    shown = [box for box in drawing.boxes if box.column == "route" and not box.is_summary]
    assert [box.state for box in shown] == ["failing"] * TROUBLES
    assert shown[0].y < summaries[0].y, "what is wrong comes first"


def test_an_open_band_shows_as_many_as_one_can_read() -> None:
    drawing = drawn(many(1, 400), "Broker/default/b0")
    assert len([box for box in drawing.boxes if box.column == "route"]) == PAGE
    assert drawing.left_out == 400 - PAGE


def test_a_route_to_nothing_shows_what_is_missing() -> None:
    (band,) = bands_of([], [trigger("lost", broker="gone")])
    assert (band.key, band.state) == ("Broker/default/gone", "not ready")


def test_a_search_leaves_what_fits() -> None:
    bands = bands_of([broker("x"), broker("y")], [trigger("orders", broker="x"), trigger("mail", broker="y")])
    assert [[one.name.name for one in band.routes] for band in narrowed(bands, "ORD")] == [["orders"]]
    assert [band.name for band in narrowed(bands, "broker/default/y")] == ["y"]
    assert narrowed(bands, "nothing") == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "all events"),
        ({"filter": {"attributes": {"type": "order"}}}, "type = order"),
        ({"filters": [{"prefix": {"type": "com."}}, {"cesql": "size > 3"}]}, "type begins with com. and size > 3"),
        (
            {"filters": [{"not": {"any": [{"exact": {"a": 1}}, {"suffix": {"b": 2}}]}}]},
            "not a = 1 or b ends with 2",
        ),
    ],
)
def test_a_filter_is_told_in_words(spec: dict[str, object], words: str) -> None:
    assert wants_of(spec) == words


def test_the_page_holds_links_names_and_what_is_wrong(client_of: MakeClient) -> None:
    page = client_of(KnownApi(broker(), trigger("a"), trigger("b", failing="<refused>"))).get("/").text
    assert 'href="/routes/trigger/default/a"' in page
    assert "failing: &lt;refused&gt;" in page
    assert "style=" not in page
    assert "Nothing to draw yet" in client_of(KnownApi()).get("/").text


def test_three_thousand_routes_are_drawn_in_bands_and_in_seconds(client_of: MakeClient) -> None:
    client = client_of(many(10, 3000))
    began = time.process_time()
    page = client.get("/").text
    assert time.process_time() - began < 10  # it takes a fifth of one where nothing measures coverage
    assert page.count('class="box') < 100
    assert "3000 routes" in page
