"""Filters given to commands (`--filter`), and the reasons why an event passes a Trigger's filters or not. Pure.

A filter is `type=greeting`, a filter of a Trigger in YAML, or a CESQL expression. Commands import this module lazily.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import Predicate
from penstock.filters.reasons import Step, steps_of
from penstock.resources.conditions import READY, find
from penstock.resources.delivery import RouteOptions
from penstock.resources.delivery_status import DELIVERING
from penstock.runtime.errors import UserError

_EXACT = re.compile(r"([a-z0-9]+)=([^=].*|)")


def filters_of(texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """The filters in the form of `spec.filters` of a Trigger."""
    return [_filter_of(text) for text in texts or []]


def predicate_of(texts: Sequence[str] | None) -> Predicate:
    """The predicate of the filters. Raises UserError for an invalid filter."""
    try:
        return parse(None, filters_of(texts))
    except InvalidFilter as invalid:
        raise UserError(f"Invalid --filter: {invalid}.", exit_code=2) from None


def passes(predicate: Predicate, event: CloudEvent) -> bool:
    """Whether the event matches."""
    return matches_event(predicate, event)


def _filter_of(text: str) -> dict[str, Any]:
    if found := _EXACT.fullmatch(text):
        return {"exact": {found[1]: found[2]}}
    if text.lstrip().startswith("{"):
        try:
            element = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"--filter {text} is not valid YAML: {error}.", exit_code=2) from None
        if isinstance(element, dict):
            return element
    return {"cesql": text}


@dataclass(frozen=True)
class FilterVerdict:
    """Whether the route gets the event, and why."""

    name: str
    matches: bool
    steps: list[Step]
    notes: list[str]
    """Other things that keep events from arriving."""
    is_ready: bool = True
    """Whether the route is in force, as far as its status says."""

    @property
    def is_delivered(self) -> bool:
        """Whether the route gets the event."""
        return self.matches and self.is_ready

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if self.matches and not self.is_ready:
            return f"{self.name} matches this event, but does not get it: it is not Ready"
        return f"{self.name} {'gets' if self.matches else 'does not get'} this event"


def reasons(route: Mapping[str, Any], event: CloudEvent) -> FilterVerdict:
    """Filter by filter, whether the event passes the route. Raises UserError for invalid filters."""
    spec = route.get("spec") or {}
    name = f"{str(route.get('kind')).lower()}/{(route.get('metadata') or {}).get('name', '')}"
    try:
        predicate = parse((spec.get("filter") or {}).get("attributes"), spec.get("filters"))
    except InvalidFilter as invalid:
        raise UserError(f"{name} has an invalid filter: {invalid}.") from None
    steps = steps_of(predicate, event)
    return FilterVerdict(name, steps[0].passes, steps, list(_notes(route)), is_ready=not _unready(route))


def _unready(route: Mapping[str, Any]) -> str:
    """Why the route is not Ready; empty where it is, or has no status."""
    ready = find((route.get("status") or {}).get("conditions"), READY)
    if ready is None or ready.get("status") == "True":
        return ""
    return ready.get("message") or ready.get("reason") or "not yet"


def _notes(route: Mapping[str, Any]) -> Iterator[str]:
    conditions = (route.get("status") or {}).get("conditions")
    if why := _unready(route):
        yield f"it is not Ready: {why}"
    if RouteOptions.read(dict(route)).paused:
        yield "it is paused: events wait"
        return
    delivering = find(conditions, DELIVERING)
    if delivering is not None and delivering.get("status") == "False":
        yield f"deliveries fail: {delivering.get('message')}"
