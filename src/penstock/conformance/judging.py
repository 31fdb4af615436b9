"""Whether the observations of a test are the expected ones. Pure: what is wrong comes back as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from penstock.conformance.catalog import EARLY_SECONDS, LATE_SECONDS, DeliveryTest, Sink
from penstock.conformance.observations import Observation

_SENT = {
    "specversion": "1.0",
    "id": "1",
    "datacontenttype": "application/json",
    "time": "2022-04-05T17:31:00Z",
    "sequence": "1",
}


def judge(
    test: DeliveryTest, namespace: str, observed: Mapping[str, Sequence[Observation]], late: float = LATE_SECONDS
) -> list[str]:
    """Everything that is not as the document says; empty when the test has passed. `observed` is by component; `late`:
    the seconds that a retry may come after its time."""
    problems = []
    for sink in test.sinks:
        seen = observed.get(sink.component, ())
        found = [*_counts(sink, seen), *_times(sink, seen, late), *_traces(seen)]
        for observation in seen:
            found += _event(test, sink, observation, observed) + _headers(sink, namespace, observation)
        problems += [f"{sink.component}: {problem}" for problem in dict.fromkeys(found)]
    return problems


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
                f"attempt {number} came {gap:.3f} s after the one before; "
                f"expected {wanted:g} s (-{EARLY_SECONDS:g} s, +{late:g} s)"
            )
    return problems


def _traces(seen: Sequence[Observation]) -> list[str]:
    """Where attempts carry a trace context they belong to one trace, each with a span of its own."""
    contexts = [header.split("-") for observation in seen if (header := observation.header("Traceparent"))]
    if not contexts:
        return []
    if any(len(context) != 4 for context in contexts):
        return ["a Traceparent is not of the form version-trace-span-flags"]
    problems = []
    if len({context[1] for context in contexts}) > 1:
        problems.append("attempts of one event belong to different traces")
    if len({context[2] for context in contexts}) < len(contexts):
        problems.append("attempts share a span")
    return problems


def _event(
    test: DeliveryTest, sink: Sink, observation: Observation, observed: Mapping[str, Sequence[Observation]]
) -> list[str]:
    wanted: dict[str, object] = {
        **_SENT,
        "type": sink.event_type,
        "source": sink.source or _replier(observed),
        "data": dict(sink.data) if sink.data is not None else {"test": test.name},
    }
    if sink.role == "dead letter":
        wanted |= {"knativeerrorcode": "409", "knativeerrordata": ""}
    got = observation.event
    problems = [
        f"{name} is {got.get(name)!r}, expected {value!r}" for name, value in wanted.items() if got.get(name) != value
    ]
    if test.kind == "Trigger" and not got.get("knativearrivaltime"):
        problems.append("knativearrivaltime is missing")
    if sink.role == "dead letter" and not str(got.get("knativeerrordest", "")).startswith("http"):
        problems.append(f"knativeerrordest is {got.get('knativeerrordest')!r}, expected the URL that failed")
    return problems


def _replier(observed: Mapping[str, Sequence[Observation]]) -> str:
    return next((observation.observer for observation in observed.get("sink-ack-reply", ())), "")


def _headers(sink: Sink, namespace: str, observation: Observation) -> list[str]:
    problems = []
    host = (observation.header("Host") or "").partition(":")[0]
    if host not in (f"{sink.component}.{namespace}.svc.cluster.local", f"{sink.component}.{namespace}.svc"):
        problems.append(f"Host is {host!r}, expected the name of the Service {sink.component}")
    if observation.header("Content-Type") != "application/json":
        problems.append(f"Content-Type is {observation.header('Content-Type')!r}, expected 'application/json'")
    prefer = observation.header("Prefer")
    if sink.role == "subscriber" and prefer != "reply":
        problems.append(f"Prefer is {prefer!r}, expected 'reply'")
    if sink.role != "subscriber" and prefer is not None:
        problems.append(f"Prefer is {prefer!r} at a sink whose replies nobody takes")
    return problems
