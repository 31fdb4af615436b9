"""Every metric is in docs/observability.md, with its labels and its text, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.observability import metrics  # noqa: F401  # defines the instruments
from penstock.observability.instruments import Instrument, instruments

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
ROWS = {row[1]: row[0] for row in re.finditer(r"^\| `((?:kn|penstock)_[a-z_]+)` \|.*$", PAGE, re.MULTILINE)}


@pytest.mark.parametrize("instrument", instruments(), ids=lambda instrument: instrument.name)
def test_a_metric_is_documented(instrument: Instrument) -> None:
    row = ROWS.get(instrument.name)
    assert row is not None, f"{instrument.name} is missing in docs/observability.md"
    assert instrument.text in row
    assert f"| {', '.join(instrument.labels)} |".replace("|  |", "| |") in row


def test_nothing_else_is_documented() -> None:
    assert set(ROWS) == {instrument.name for instrument in instruments()}


@pytest.mark.parametrize("instrument", instruments(), ids=lambda instrument: instrument.name)
def test_labels_are_bounded(instrument: Instrument) -> None:
    bounded = {"kind", "namespace", "name", "code", "stage", "outcome", "topic", "component", "role"}
    assert set(instrument.labels) <= bounded
