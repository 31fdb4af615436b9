"""CESQL: what the parser says to people, and the rules that hold for every expression."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.cesql import ParseError, parse
from penstock.filters.cesql.evaluate import Evaluation, evaluate, passes
from penstock.filters.cesql.functions import like
from penstock.filters.cesql.parser import MAX_DEPTH
from penstock.filters.cesql.values import Error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty; expected a value, an attribute, a function or '('"),
        ("type =", "the expression ends too early; expected a value, an attribute, a function or '('"),
        ("(type", "the expression ends too early; expected an operator or ')'"),
        ("type source", "unexpected 'source' at column 6; expected an operator or the end"),
        ("type LIKE 1", "unexpected '1' at column 11; expected a string in quotes"),
        ("EXISTS 'a'", "unexpected \"'a'\" at column 8; expected an attribute"),
        ("type = 'a", "the string that starts at column 8 is not closed"),
        ("my_name = 1", "unexpected 'my_name' at column 1"),
        ("true\nAND ?", "unexpected '?' at line 2, column 5"),
        ("2147483648", "2147483648 is not a 32-bit integer"),
    ],
)
def test_a_refusal_says_where_and_why(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse(text)


def test_depth_is_limited_and_length_is_not() -> None:
    assert parse("(" * 500 + "true" + ")" * 500) == parse("true")
    assert passes(parse(" AND ".join(["true"] * 5000)), {})
    with pytest.raises(ParseError, match=f"at most {MAX_DEPTH}"):
        parse("-" * 5000 + "n")


def test_thousands_of_digits_are_an_error_and_no_failure() -> None:
    with pytest.raises(ParseError, match="32-bit integer"):
        parse("9" * 10_000)
    assert evaluate(parse("INT(n)"), {"n": "9" * 10_000}) == Evaluation(0, (Error.CAST,))
    assert evaluate(parse("INT(n)"), {"n": "0" * 10_000 + "7"}) == Evaluation(7)


def test_only_a_boolean_without_errors_passes() -> None:
    assert passes(parse("1 = 1"), {})
    assert not passes(parse("1"), {})
    assert not passes(parse("'true'"), {})
    assert not passes(parse("ABS(-2147483648) = 2147483647"), {})
    assert passes(parse("flag"), {"flag": "true"})
    assert not passes(parse("flag"), {"flag": "false"})
    assert not passes(parse("flag"), {})


def test_required_attributes_always_exist() -> None:
    assert evaluate(parse("EXISTS id AND EXISTS source AND EXISTS type AND EXISTS specversion"), {}) == Evaluation(True)


def test_a_hostile_pattern_takes_no_time() -> None:
    start = time.perf_counter()
    assert not like("a" * 20_000, "%a" * 50 + "%b")
    assert time.perf_counter() - start < 2


def _naive(value: str, pattern: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "%":
        return any(_naive(value[n:], pattern[1:]) for n in range(len(value) + 1))
    return bool(value) and pattern[0] in ("_", value[0]) and _naive(value[1:], pattern[1:])


@given(st.text("ab\n", max_size=7), st.text("ab%_\n", max_size=6))
def test_like_is_what_its_definition_says(value: str, pattern: str) -> None:
    assert like(value, pattern) is _naive(value, pattern)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_quotient_and_remainder_make_the_dividend(x: int, y: int) -> None:
    event = {"x": str(x), "y": str(y)}
    quotient, remainder = evaluate(parse("x / y"), event), evaluate(parse("x % y"), event)
    if quotient.errors:
        assert (x, y) == (-(2**31), -1)
    else:
        assert int(quotient.value) * y + int(remainder.value) == x
        assert abs(int(remainder.value)) < abs(y)
        assert remainder.value == 0 or (int(remainder.value) < 0) is (x < 0)
