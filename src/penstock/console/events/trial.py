"""A filter as it is typed: what is meant by the text, what the API would say to it, and the Trigger it belongs to.

Pure, but for the settings that admission asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.engine.problem import Problem
from penstock.events.event import CloudEvent
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import Predicate
from penstock.filters.reasons import Step, steps_of
from penstock.kube.kinds import Obj
from penstock.resources.registry import ADMISSION, AdmissionContext, AdmissionDenied
from penstock.resources.trigger import GROUP, KIND
from penstock.settings import Settings

NAME, SUBSCRIBER = "my-trigger", "http://127.0.0.1:9000/"
LONGEST = 16 * 1024

_ASSIGNED = re.compile(r"([a-z0-9]+)=([^=].*)")


@dataclass(frozen=True)
class Tried:
    """An event, and whether it passes."""

    event: CloudEvent
    steps: list[Step]

    @property
    def passes(self) -> bool:
        """Whether the Trigger would get it."""
        return self.steps[0].passes


def filters_of(text: str) -> Any:
    """The `filters` that a text means: YAML of them, of a Trigger that has them, or a CESQL expression.

    What is neither a list nor a map in YAML is an expression: `type = 'order'` is one, and is a string in YAML too.
    """
    if len(text) > LONGEST:
        raise Problem(f"The filter has {len(text):,} characters; at most {LONGEST:,} are tried.")
    stripped = text.strip()
    if not stripped:
        return []
    try:
        found = yaml.safe_load(stripped)
    except yaml.YAMLError as error:
        if _looks_like_yaml(stripped):
            raise Problem(f"This is not YAML: {' '.join(str(error).split())}") from None
        found = None
    match found:
        case {"spec": {"filters": filters}} | {"filters": filters}:
            return filters
        case list():
            return found
        case dict():
            return [found]
        case _:
            return [{"cesql": stripped}]


def _looks_like_yaml(text: str) -> bool:
    return text.startswith(("-", "{", "[")) or text.partition(":")[0].strip() in ("filters", "spec", "apiVersion")


def trigger_of(filters: Any, namespace: str, broker: str, name: str = NAME, subscriber: str = SUBSCRIBER) -> Obj:
    """The Trigger with these filters."""
    spec = {"broker": broker, **({"filters": filters} if filters else {}), "subscriber": {"uri": subscriber}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": metadata, "spec": spec}


def admitted(trigger: Obj, settings: Settings) -> Predicate:
    """What the Trigger asks of events. Raises Problem, in the API's own words, where the API would refuse it."""
    admission = ADMISSION[GROUP, KIND]
    context = AdmissionContext("", trigger["metadata"]["namespace"], {}, settings, "CREATE")
    try:
        defaulted = admission.default(trigger, context)
        admission.validate(defaulted, None, context)
    except AdmissionDenied as denied:
        raise Problem(str(denied)) from None
    spec = defaulted["spec"]
    return parse((spec.get("filter") or {}).get("attributes"), spec.get("filters"))


def yaml_of(trigger: Obj) -> str:
    """The Trigger, to be applied."""
    text: str = yaml.safe_dump(trigger, sort_keys=False, allow_unicode=True, width=1000)
    return text


def tried(predicate: Predicate, events: Iterable[CloudEvent]) -> list[Tried]:
    """Every event with why it passes or does not."""
    return [Tried(event, steps_of(predicate, event)) for event in events]


def predicate_of(text: str) -> Predicate:
    """What a filter asks of events; `type=greeting` is understood too. Raises Problem for what is none."""
    if found := _ASSIGNED.fullmatch(text.strip()):
        filters: Any = [{"exact": {found[1]: found[2]}}]
    else:
        filters = filters_of(text)
    try:
        return parse(None, filters)
    except InvalidFilter as invalid:
        raise Problem(f"{invalid}.") from None
