"""Where everything on the map stands. Pure: bands in, boxes and lines out.

Four columns, from left to right: Broker or channel, route, subscriber, dead letter sink. Routes are a row each;
neighbours with the same subscriber share its box, which stands in their middle, and so do dead letter sinks: no line
has to cross a box. A band with many routes is folded into one box, beside those of its routes that are in trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock.console.map.graph import Band, MapSink, RouteNode

MARGIN = 24.0
ROW = 66.0
HEIGHT = 50.0
BAND_GAP = 34.0
COLUMNS = {"target": (MARGIN, 210.0), "route": (370.0, 250.0), "subscriber": (760.0, 250.0), "dead": (1110.0, 200.0)}
"""By column, where it begins and how wide its boxes are."""
WIDTH = 1110.0 + 200.0 + MARGIN

FOLD = 12
"""Routes of a band that are shown one by one where the map holds more than it can show."""
EASY = 60
"""Routes on a map that need no folding."""
PAGE = 150
"""Routes of an open band that are shown at once; a search narrows them down."""
TROUBLES = 6
"""Routes in trouble that are shown beside a folded band."""


@dataclass(frozen=True)
class Box:
    """Something that stands on the map."""

    column: str
    key: str
    x: float
    y: float
    width: float
    title: str
    detail: str
    state: str = ""
    why: str = ""
    href: str = ""
    opens: str = ""
    """Key of the band that it opens."""
    closes: str = ""
    """Key of the band that it folds again."""
    is_summary: bool = False
    members: tuple[str, ...] = ()
    """Keys of the routes that a folded box stands for."""
    text: str = ""
    lag: int = 0

    @property
    def left(self) -> tuple[float, float]:
        """Where lines end."""
        return self.x, self.y + HEIGHT / 2

    @property
    def right(self) -> tuple[float, float]:
        """Where lines begin."""
        return self.x + self.width, self.y + HEIGHT / 2


@dataclass(frozen=True)
class MapLine:
    """A way that events take."""

    key: str
    kind: str
    """`in`, `out` or `dead`."""
    begin: tuple[float, float]
    end: tuple[float, float]
    state: str

    @property
    def path(self) -> str:
        """As SVG draws it: it leaves and arrives level."""
        (x1, y1), (x2, y2) = self.begin, self.end
        bend = (x2 - x1) / 2
        return f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"


@dataclass(frozen=True)
class Drawing:
    """The map."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[MapLine, ...]
    routes: int
    """How many there are, shown or folded."""
    left_out: int
    """Routes of open bands that are not shown: there are too many."""


def drawing_of(bands: Sequence[Band], opened: Iterable[str] = ()) -> Drawing:
    """The map of these bands. `opened`: keys of bands that are not to be folded."""
    total, open_keys = sum(len(band.routes) for band in bands), frozenset(opened)
    boxes: list[Box] = []
    lines: list[MapLine] = []
    y, left_out = MARGIN, 0
    for band in sorted(bands, key=lambda band: band.key not in open_keys):  # what was opened is on top
        folds = total > EASY and len(band.routes) > FOLD and band.key not in open_keys
        shown = _in_trouble(band) if folds else band.routes[:PAGE]
        left_out += 0 if folds else len(band.routes) - len(shown)
        rows = len(shown) + (1 if folds else 0)
        middle = y + (max(1, rows) - 1) * ROW / 2
        target = _target(band, middle, is_open=band.key in open_keys and total > EASY)
        boxes.append(target)
        _rows(target, shown, y, boxes, lines)
        if folds:
            summary = _summary(band, y + len(shown) * ROW)
            boxes.append(summary)
            lines.append(MapLine(summary.key, "in", target.right, summary.left, summary.state))
        y += max(1, rows) * ROW + BAND_GAP
    return Drawing(WIDTH, max(y, 200.0), tuple(boxes), tuple(lines), total, left_out)


def _in_trouble(band: Band) -> tuple[RouteNode, ...]:
    return band.bad[:TROUBLES]


def _rows(target: Box, routes: Sequence[RouteNode], top: float, boxes: list[Box], lines: list[MapLine]) -> None:
    routed = {}
    for row, route in enumerate(routes):
        box = routed[route.key] = _route(route, top + row * ROW)
        boxes.append(box)
        lines.append(MapLine(route.key, "in", target.right, box.left, route.state))
    for column, kind in (("subscriber", "out"), ("dead", "dead")):
        for place, group in groupby(routes, key=lambda one, of=column: _place(one, of)):  # type: ignore[misc]
            members = list(group)
            if place is None:
                continue
            ys = [routed[one.key].y for one in members]
            box = _box(column, f"{column}:{members[0].key}", sum(ys) / len(ys), place.title, place.detail)
            boxes.append(box)
            lines += [MapLine(one.key, kind, routed[one.key].right, box.left, one.state) for one in members]


def _place(route: RouteNode, column: str) -> MapSink | None:
    return route.subscriber if column == "subscriber" else route.dead_letters


def _box(column: str, key: str, y: float, title: str, detail: str) -> Box:
    x, width = COLUMNS[column]
    return Box(column, key, x, y, width, title, detail)


def _target(band: Band, y: float, *, is_open: bool) -> Box:
    x, width = COLUMNS["target"]
    count = len(band.routes)
    routes = f"{count} route{'' if count == 1 else 's'}"
    place = "" if band.namespace == "default" else f" in {band.namespace}"
    return Box(
        *("target", band.numbers, x, y, width, band.name, f"{band.kind}{place}, {routes}", band.state, band.why),
        closes=band.key if is_open else "",
        text=band.key.lower(),
    )


def _route(route: RouteNode, y: float) -> Box:
    x, width = COLUMNS["route"]
    kind, namespace, name = route.name
    return Box(
        *("route", route.key, x, y, width, name, route.wants, route.state, route.why),
        href=f"/routes/{kind.lower()}/{namespace}/{name}",
        text=route.text,
        lag=route.lag,
    )


def _summary(band: Band, y: float) -> Box:
    x, width = COLUMNS["route"]
    shown = {one.key for one in _in_trouble(band)}
    members = tuple(one.key for one in band.routes if one.key not in shown)
    bad = sum(1 for one in band.bad if one.key not in shown)
    return Box(
        "route",
        f"fold:{band.key}",
        *(x, y, width, f"{len(members)} routes", f"{bad} in trouble; open" if bad else "open to see each"),
        state="failing" if bad else "ready",
        opens=band.key,
        is_summary=True,
        members=members,
        lag=sum(one.lag for one in band.routes if one.key not in shown),
    )
