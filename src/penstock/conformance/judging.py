"""Whether the observations of a test are the expected ones. Pure: it returns the differences as sentences.

Each observation is compared with the output that the document prints for it, field by field and header by header:
everything that is printed must be there, and have the same value unless it is of one run only, such as a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.conformance.catalog import EARLY_SECONDS, LATE_SECONDS, NAMESPACE, DeliveryTest, Expected, Sink
from penstock.runtime.times import parse_rfc3339


@dataclass(frozen=True)
class Observation:
    """One report of a sink."""

    kind: str
    sequence: int
    at: float
    """Unix time in seconds."""
    fields: Mapping[str, Any]
    """The whole report."""
    text: str
    """The message as it was, for evidence."""

    @property
    def headers(self) -> Mapping[str, list[str]]:
        """Headers of the request, in Go's spelling."""
        headers: Mapping[str, list[str]] = self.fields.get("httpHeaders") or {}
        return headers


def read(messages: Iterable[str]) -> list[Observation]:
    """The observations in the order in which they were made. Messages of other kinds are passed over."""
    found = [observation for observation in map(_observation, messages) if observation is not None]
    return sorted(found, key=lambda observation: observation.at)


def _observation(message: str) -> Observation | None:
    try:
        fields = json.loads(message)
        at = parse_rfc3339(fields["time"]).timestamp()
        return Observation(fields["kind"], int(fields["sequence"]), at, fields, message)
    except (ValueError, KeyError, TypeError):
        return None


_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00")
_OLD_DESTINATION = "http://broker-filter."
"""What Brokers of 2021 named as the failed destination: a part of the Broker. It is the subscriber by now."""
_COMPARED_AS_ONE = frozenset({"event.data"})


def judge(
    test: DeliveryTest, namespace: str, observed: Mapping[str, Sequence[Observation]], late: float = LATE_SECONDS
) -> list[str]:
    """Everything that is not as the document says; empty when the test has passed. `observed` is by component; `late`:
    the seconds that a retry may come after its time."""
    problems = []
    values = _values_of_this_run(test, namespace, observed)
    for sink in test.sinks:
        seen = observed.get(sink.component, ())
        found = [*_counts(sink, seen), *_times(sink, seen, late)]
        for expected, observation in zip(sink.observations, seen, strict=False):
            found += _differences(values(expected.output), observation.fields)
            found += [*_observer_of(sink, observation), *_prefer(sink, expected, observation)]
        problems += [f"{sink.component}: {problem}" for problem in dict.fromkeys(found)]
    return problems + _traces([one for sink in test.sinks for one in observed.get(sink.component, ())])


def enough(test: DeliveryTest, observed: Mapping[str, Sequence[Observation]]) -> bool:
    """Whether as many observations are there as the test waits for."""
    return all(len(observed.get(sink.component, ())) >= len(sink.observations) for sink in test.sinks)


def _counts(sink: Sink, seen: Sequence[Observation]) -> list[str]:
    wanted = [(expected.kind, expected.sequence) for expected in sink.observations]
    got = [(observation.kind, observation.sequence) for observation in seen]
    return [] if wanted == got else [f"expected {_listed(wanted)}, observed {_listed(got)}"]


def _listed(pairs: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{kind} {sequence}" for kind, sequence in pairs) or "nothing"


def _times(sink: Sink, seen: Sequence[Observation], late: float) -> list[str]:
    problems = []
    for number, (expected, (before, after)) in enumerate(
        zip(sink.observations[1:], pairwise(seen), strict=False), start=2
    ):
        gap, wanted = after.at - before.at, expected.gap or 0.0
        if not wanted - EARLY_SECONDS <= gap <= wanted + late:
            problems.append(
                f"attempt {number} was {gap:.3f} s after the one before; "
                f"expected {wanted:g} s (-{EARLY_SECONDS:g} s, +{late:g} s)"
            )
    return problems


def _traces(seen: Sequence[Observation]) -> list[str]:
    """All requests of a test belong to one trace, each with a span of its own."""
    contexts = [header.split("-") for one in seen for header in one.headers.get("Traceparent", ())]
    contexts = [context for context in contexts if len(context) == 4]
    problems = []
    if len({context[1] for context in contexts}) > 1:
        problems.append("requests for one event belong to different traces")
    if len({context[2] for context in contexts}) < len(contexts):
        problems.append("requests share a span")
    return problems


def _observer_of(sink: Sink, observation: Observation) -> list[str]:
    observer, stem = _observer([observation]), f"{sink.component}-"
    is_pod_of_sink = observer.startswith(stem) and "-" not in observer[len(stem) :]
    return [] if is_pod_of_sink else [f"observer is {observer!r}, expected the name of a Pod of {sink.component}"]


def _prefer(sink: Sink, expected: Expected, observation: Observation) -> list[str]:
    """The header where the document does not print it: an answer that may not carry a reply is not asked for one."""
    wanted, got = ["reply"] if sink.asks_for_reply else None, observation.headers.get("Prefer")
    if "Prefer" in expected.output["httpHeaders"] or got == wanted:
        return []
    return [f"httpHeaders.Prefer is {got!r}, expected {wanted!r}"]


def _values_of_this_run(
    test: DeliveryTest, namespace: str, observed: Mapping[str, Sequence[Observation]]
) -> Callable[[Any], Any]:
    """Puts this run's namespace and Pods in place of those that the document names."""
    pods = {sink.observations[0].output["observer"]: _observer(observed.get(sink.component, ())) for sink in test.sinks}
    failed = _replace(f"http://{_host(test.sinks[0].observations[0])}", namespace)

    def values(output: Any) -> Any:
        if isinstance(output, dict):
            return {name: values(value) for name, value in output.items()}
        if isinstance(output, list):
            return [values(value) for value in output]
        if not isinstance(output, str):
            return output
        if output.startswith(_OLD_DESTINATION):
            return failed
        return pods.get(output) or _replace(output, namespace)

    return values


def _observer(seen: Sequence[Observation]) -> str:
    return str(seen[0].fields.get("observer", "")) if seen else ""


def _host(expected: Expected) -> str:
    return str(expected.output["httpHeaders"]["Host"][0])


def _replace(text: str, namespace: str) -> str:
    return text.replace(f".{NAMESPACE}.svc.", f".{namespace}.svc.")


def _differences(expected: Mapping[str, Any], got: Mapping[str, Any], inside: str = "") -> Iterator[str]:
    for name, wanted in expected.items():
        path = f"{inside}{name}"
        if name not in got:
            yield f"{path} is missing"
        elif isinstance(wanted, dict) and path not in _COMPARED_AS_ONE:
            yield from _differences(wanted, got[name] if isinstance(got[name], dict) else {}, f"{path}.")
        elif path in _OF_ONE_RUN:
            if not _OF_ONE_RUN[path](got[name]):
                yield f"{path} is {got[name]!r}, expected a value such as {wanted!r}"
        elif got[name] != wanted:
            yield f"{path} is {got[name]!r}, expected {wanted!r}"


def _is_moment(value: object) -> bool:
    try:
        parse_rfc3339(str(value))
    except ValueError:
        return False
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_header(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and _is_text(value[0])


def _is_traceparent(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and _TRACEPARENT.fullmatch(str(value[0])) is not None


_OF_ONE_RUN: dict[str, Callable[[object], bool]] = {
    "event.knativearrivaltime": _is_moment,
    "httpHeaders.Traceparent": _is_traceparent,
    "httpHeaders.User-Agent": _is_header,
    "origin": _is_text,
    "time": _is_moment,
}
"""What has another value in every run, or with every implementation, and what may stand there."""
