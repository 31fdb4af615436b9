"""The CESQL test kit, in the reference evaluator and as Spark columns.

The kit's format is that of the CloudEvents project's `cesql_tck`: with `TCK=<folder>` its cases are run from a
checkout, otherwise those in `cases/`, which are penstock's own. Attributes are strings to penstock, so a lone attribute
of another type is compared in its canonical text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from penstock.filters.cesql import ParseError, parse
from penstock.filters.cesql.columns import compile_expression, passes
from penstock.filters.cesql.evaluate import evaluate
from penstock.filters.cesql.evaluate import passes as reference_passes
from penstock.filters.cesql.syntax import Attribute, Expression

FOLDER = Path(os.environ.get("TCK") or Path(__file__).parent / "cases")
ANY_EVENT = {"specversion": "1.0", "id": "any", "source": "/any", "type": "any"}


class _Loader(yaml.SafeLoader):
    """Leaves timestamps as they are written."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Case(NamedTuple):
    """One case of the kit."""

    name: str
    expression: str
    attributes: dict[str, str]
    result: bool | int | str | None
    error: str | None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cases() -> Iterator[Case]:
    for file in sorted(FOLDER.glob("*.yaml")):
        for test in yaml.load(file.read_text(encoding="utf-8"), _Loader)["tests"]:
            event = {**(test.get("event") or ANY_EVENT), **test.get("eventOverrides", {})}
            yield Case(
                f"{file.stem}: {test['name']}",
                _text(test["expression"]),
                {name: _text(value) for name, value in event.items()},
                test.get("result"),
                test.get("error"),
            )


CASES = list(_cases())
EVALUATED = [case for case in CASES if case.error != "parse"]
NAMES = [case.name for case in EVALUATED]


def _expected(case: Case, expression: Expression) -> Any:
    """The result; in text for a lone attribute that is there."""
    return _text(case.result) if isinstance(expression, Attribute) and case.error is None else case.result


@pytest.fixture(scope="module")
def answers(ask: Any) -> list[tuple[Any, bool]]:
    """What Spark says: the value (null for an error), and whether the event passes."""
    questions = []
    for case in EVALUATED:
        expression = parse(case.expression)
        questions += [
            (lambda event, each=expression: compile_expression(each, event).column, case.attributes),
            (lambda event, each=expression: passes(each, event), case.attributes),
        ]
    values = ask(questions)
    return list(zip(values[::2], values[1::2], strict=True))


def test_there_are_cases() -> None:
    assert len(CASES) > 100, f"no test kit in {FOLDER}"


@pytest.mark.parametrize("case", [case for case in CASES if case.error == "parse"], ids=lambda case: case.name)
def test_is_refused(case: Case) -> None:
    with pytest.raises(ParseError):
        parse(case.expression)


@pytest.mark.parametrize("case", EVALUATED, ids=NAMES)
def test_reference(case: Case) -> None:
    expression = parse(case.expression)
    result = evaluate(expression, case.attributes)
    assert [error.value for error in result.errors[:1]] == ([case.error] if case.error else [])
    if case.result is not None:
        expected = _expected(case, expression)
        assert (type(result.value), result.value) == (type(expected), expected)


@pytest.mark.parametrize("number", range(len(EVALUATED)), ids=NAMES)
def test_spark(number: int, answers: list[tuple[Any, bool]]) -> None:
    case = EVALUATED[number]
    expression = parse(case.expression)
    value, passed = answers[number]
    expected = None if case.error else _expected(case, expression)
    assert (type(value), value) == (type(expected), expected)
    assert passed is reference_passes(expression, case.attributes) is (case.error is None and case.result is True)
