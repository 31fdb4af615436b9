"""What is remembered stays right and bounded."""

from __future__ import annotations

import pytest

from penstock.events.http import fold_headers
from penstock.events.memo import CAPACITY, LENGTH, Memo


def test_a_text_is_worked_out_once() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    remembered = Memo(length)
    assert [remembered["ab"], remembered["ab"], remembered["abc"]] == [2, 2, 3]
    assert asked == ["ab", "abc"]


def test_it_never_grows_without_bound() -> None:
    remembered = Memo(len)
    for number in range(CAPACITY * 2):
        assert remembered[str(number)] == len(str(number))
    assert len(remembered) == CAPACITY
    fresh = Memo(len)
    assert fresh["x" * (LENGTH + 1)] == LENGTH + 1
    assert len(fresh) == 0


def test_a_refusal_is_not_remembered() -> None:
    def refuse(text: str) -> str:
        raise ValueError(text)

    remembered = Memo(refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            remembered["x"]
    assert len(remembered) == 0


def test_header_names_come_in_any_case() -> None:
    assert fold_headers([(b"CE-Id", b"1"), (b"Host", b"x"), (b"host", b"\xfc")]) == {"ce-id": "1", "host": "x, ü"}
