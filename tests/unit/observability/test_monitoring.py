"""The dashboard and the alert rules ask for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.observability import metrics
from penstock.observability.instruments import Instrument

FOLDER = Path(__file__).parents[3] / "deploy" / "monitoring"
INSTRUMENTS = {value.name: value for value in vars(metrics).values() if isinstance(value, Instrument)}

SELECTOR = re.compile(r"\{[^}]*\}")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
RANGE = re.compile(r"\[[^\]]*\]")
NAME = re.compile(r"[a-zA-Z_:][\w:]*(?!\s*\(|\w)")
WORDS = {"and", "or", "unless", "bool", "offset"}
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')


def expressions() -> Iterator[tuple[str, str]]:
    """Every question that is asked, with where."""
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
            assert found is not None
            yield variable["name"], f"sum by ({found[2]}) ({found[1]})"


def names_in(expression: str) -> set[str]:
    """Names of metrics in a PromQL expression."""
    for pattern in (SELECTOR, GROUPING, RANGE):
        expression = pattern.sub(" ", expression)
    return set(NAME.findall(expression)) - WORDS


def instrument_of(name: str) -> Instrument | None:
    for suffix in ("_bucket", "_count", "_sum"):
        base = INSTRUMENTS.get(name.removesuffix(suffix))
        if name.endswith(suffix) and base is not None and base.kind == "histogram":
            return base
    found = INSTRUMENTS.get(name)
    return None if found is None or found.kind == "histogram" else found


def labels_of(names: set[str]) -> set[str]:
    return {label for name in names if (found := instrument_of(name)) is not None for label in found.labels}


@pytest.mark.parametrize(("where", "expression"), [*expressions()])
def test_every_expression_asks_for_what_there_is(where: str, expression: str) -> None:
    names = names_in(expression)
    assert names, expression
    unknown = [name for name in names if instrument_of(name) is None]
    assert unknown == [], f"{where}: no metric of these names: {unknown}"
    labels = {"le", *labels_of(names)}
    asked = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",")}
    asked |= {label for selector in SELECTOR.findall(expression) for label in MATCHER.findall(selector)}
    assert asked <= labels, f"{where}: no label of these names: {asked - labels}"


def test_the_names_are_found_where_they_stand() -> None:
    expression = 'histogram_quantile(0.9, sum by (le) (rate(a_bucket{x="b_total", y=~"c"}[5m]))) > 2 * d_total and e'
    assert names_in(expression) == {"a_bucket", "d_total", "e"}
    assert instrument_of("kn_eventing_dispatch_duration_seconds") is None
    assert instrument_of("penstock_events_dropped_bucket") is None


def test_what_an_alert_says_names_labels_that_its_expression_keeps() -> None:
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
            kept = {label.strip() for found in GROUPING.findall(rule["expr"]) for label in found.split(",")}
            if not kept:
                kept = labels_of(names_in(rule["expr"]))
            assert used <= kept, rule["alert"]
