"""Charts as SVG, which browsers and GitHub show without anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COLOURS = ("#2f6f8f", "#c26a2e", "#5b8c5a", "#8a4f7d", "#b5973b", "#4c4c8f", "#a33b3b", "#3b9c9c", "#777777", "#333333")
LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 70, 20, 560, 300
LEGEND = LEFT + PLOT_WIDTH + 20
STEPS = 5
"""Lines of the grid."""

Point = tuple[float, float]


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """A picture of these parts."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">' + "".join(parts) + "</svg>\n"
    )


def lines(series: Mapping[str, Sequence[Point]], across: str, up: str) -> str:
    """A line for each series, over one pair of axes that begin at zero."""
    points = [point for line in series.values() for point in line]
    right, top = (max([point[axis] for point in points] + [1e-9]) for axis in (0, 1))
    parts = [f'<rect width="{LEGEND + 170}" height="{TOP + PLOT_HEIGHT + 50}" fill="#ffffff"/>']
    for step in range(STEPS + 1):
        x, y = LEFT + PLOT_WIDTH * step / STEPS, TOP + PLOT_HEIGHT * (1 - step / STEPS)
        parts.append(f'<line x1="{LEFT}" y1="{y:.0f}" x2="{LEFT + PLOT_WIDTH}" y2="{y:.0f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{_short(top * step / STEPS)}</text>')
        parts.append(
            f'<text x="{x:.0f}" y="{TOP + PLOT_HEIGHT + 18}" text-anchor="middle">{_short(right * step / STEPS)}</text>'
        )
    parts.append(f'<text x="{LEFT + PLOT_WIDTH}" y="{TOP + PLOT_HEIGHT + 38}" text-anchor="end">{across}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 6}">{up}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{LEFT + PLOT_WIDTH * x / right:.1f},{TOP + PLOT_HEIGHT * (1 - y / top):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<rect x="{LEGEND}" y="{TOP + number * 20}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{LEGEND + 18}" y="{TOP + 11 + number * 20}">{name}</text>')
    return svg(LEGEND + 170, TOP + PLOT_HEIGHT + 50, parts)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
