"""ISO 8601 durations."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.times import NotADuration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT2S", 2),
        ("PT0.2S", 0.2),
        ("PT0,5S", 0.5),
        ("PT1M30S", 90),
        ("P1DT12H", 129_600),
        ("P1W", 604_800),
        ("PT0S", 0),
        ("-PT1S", -1),
        ("P1Y", 31_556_952),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "2s", "T2S", "PT2", "PTS", "PT1S2M", "PT1S1S", "P1D2", "PT٢S", "pt2s"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(NotADuration, match=f'^"{re.escape(text)}" '):
        parse_duration(text)


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(1, 59_999))
def test_every_written_duration_reads_back(days: int, hours: int, minutes: int, milliseconds: int) -> None:
    text = f"P{days}DT{hours}H{minutes}M{milliseconds / 1000:.3f}S"
    assert parse_duration(text) == pytest.approx(days * 86_400 + hours * 3600 + minutes * 60 + milliseconds / 1000)


@given(st.text(alphabet="PTYMWDHS0123456789.,+-", max_size=12))
def test_any_text_gives_a_number_or_a_refusal(text: str) -> None:
    with contextlib.suppress(NotADuration):
        assert isinstance(parse_duration(text), float)
