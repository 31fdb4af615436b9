"""Filters as a command takes them: `type=greeting`, a filter of a Trigger in YAML, or a CESQL expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from penstock.engine.problem import Problem
from penstock.events.event import CloudEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import Predicate

_ASSIGNED = re.compile(r"([a-z0-9]+)=([^=].*|)")


def filters_of(texts: Sequence[str] | None) -> list[dict[str, Any]]:
    """The filters as a Trigger would have them."""
    return [_filter_of(text) for text in texts or []]


def predicate_of(texts: Sequence[str] | None) -> Predicate:
    """What has to hold. Raises Problem for what is no filter."""
    try:
        return parse(None, filters_of(texts))
    except InvalidFilter as invalid:
        raise Problem(f"--filter: {invalid}.", exit_code=2) from None


def passes(predicate: Predicate, event: CloudEvent) -> bool:
    """Whether the event is wanted."""
    return matches_event(predicate, event)


def _filter_of(text: str) -> dict[str, Any]:
    if found := _ASSIGNED.fullmatch(text):
        return {"exact": {found[1]: found[2]}}
    if text.lstrip().startswith("{"):
        try:
            element = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise Problem(f"--filter {text} is no YAML: {error}.", exit_code=2) from None
        if isinstance(element, dict):
            return element
    return {"cesql": text}
