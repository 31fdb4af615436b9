"""The thirteen event delivery tests and what their sinks must observe, read from the document's own text.

`event-delivery.md` is an extract of the document: headings, expected kinds, sequences and times, and outputs. Times
are the gaps to the observation before, in seconds and without the round trip. Penstock's own manifests for the tests
are in `manifests/`, under the names that the document's commands use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml

EARLY_SECONDS = 0.1
"""A retry may come this much before its time: clocks are read on two sides."""

LATE_SECONDS = 1.0
"""A retry may come this much after its time: the round trip, which the document wants far below a second."""

SETTLE_SECONDS = 5.0
"""Time to wait after the last expected observation for one too many."""

_HEADING = re.compile(r"^## \[Test\] (.+?)\.?$", re.MULTILINE)
_BULLETS = re.compile(r"- Kind: (\w+)\n *- Sequence: (\d+)(?:\n *- Time: (.+))?")
_OUTPUT = re.compile(r"^\{.*\}$", re.MULTILINE)
_SECONDS = re.compile(r"(\d+) seconds")


@dataclass(frozen=True)
class Expected:
    """One observation at a sink."""

    kind: str
    sequence: int
    gap: float | None
    """Seconds since the observation before; None for the first one."""
    output: Mapping[str, Any]
    """The observation as the document prints it."""

    @property
    def component(self) -> str:
        """The sink."""
        return str(self.output["httpHeaders"]["Host"][0].partition(".")[0])


@dataclass(frozen=True)
class Sink:
    """What a sink must have observed, all of it and nothing else."""

    component: str
    observations: tuple[Expected, ...]
    asks_for_reply: bool
    """Whether its answers may carry a reply: it is a subscriber, neither a reply destination nor a dead letter sink."""


@dataclass(frozen=True)
class DeliveryTest:
    """One test of the document."""

    number: str
    name: str
    title: str
    sinks: tuple[Sink, ...]

    @property
    def id(self) -> str:
        """How assertions and reports refer to the test."""
        return f"event-delivery/{self.number}"

    @property
    def kind(self) -> Literal["Subscription", "Trigger"]:
        """What is under test."""
        return _kind(self.name)

    @property
    def scenario(self) -> str:
        """The manifest of the scenario."""
        return f"{self.number}-00-{self.name}.yaml"

    @property
    def emitter(self) -> str:
        """The manifest of the emitter."""
        return f"{self.number}-01-{self.name}.yaml"

    @property
    def seconds(self) -> float:
        """How long the deliveries take when everything works, without the emitter's own delay."""
        return max(sum(expected.gap or 0.0 for expected in sink.observations) for sink in self.sinks)


def parse(document: str) -> tuple[DeliveryTest, ...]:
    """The tests of the document. Raises ValueError where its bullets and outputs contradict each other."""
    parts = _HEADING.split(document)[1:]
    return tuple(_test(number, *pair) for number, pair in enumerate(zip(parts[::2], parts[1::2], strict=True), start=1))


def _test(number: int, title: str, text: str) -> DeliveryTest:
    observations = _observations(title, text)
    name = str(observations[0].output["event"]["data"]["test"])
    components = dict.fromkeys(expected.component for expected in observations)
    sinks = (tuple(one for one in observations if one.component == component) for component in components)
    return DeliveryTest(
        f"{number:02}",
        name,
        title,
        tuple(Sink(found[0].component, found, _asks_for_reply(name, found[0].output)) for found in sinks),
    )


def _observations(title: str, text: str) -> list[Expected]:
    bullets = [(kind, int(sequence), _gap(time)) for kind, sequence, time in _BULLETS.findall(text)]
    outputs = [json.loads(output) for output in _OUTPUT.findall(text)]
    listed = [(kind, sequence) for kind, sequence, _ in bullets]
    shown = [(output["kind"], output["sequence"]) for output in outputs]
    if listed != shown:
        raise ValueError(f"{title}: the document says {listed} and shows {shown}")
    return [Expected(*bullet, output) for bullet, output in zip(bullets, outputs, strict=True)]


def _gap(time: str) -> float | None:
    if "previous" not in time:
        return None
    seconds = _SECONDS.search(time)
    return float(seconds[1]) if seconds else 0.0


def _kind(name: str) -> Literal["Subscription", "Trigger"]:
    return "Subscription" if name.startswith("channel") else "Trigger"


def _asks_for_reply(name: str, output: Mapping[str, Any]) -> bool:
    """The outputs of Brokers are older than `Prefer: reply` there, which the data plane's specification asks for."""
    if _kind(name) == "Subscription":
        return "Prefer" in output["httpHeaders"]
    return "knativeerrorcode" not in output["event"]


def path() -> Path:
    """The extract of the document."""
    return Path(str(files("penstock.conformance"))) / "event-delivery.md"


TESTS = parse(path().read_text())


def find(number: str) -> DeliveryTest | None:
    """The test with this number, written `5`, `05` or `event-delivery/05`."""
    wanted = number.rpartition("/")[2].zfill(2)
    return next((test for test in TESTS if test.number == wanted), None)


Manifest = dict[str, Any]

NAMESPACE = "conformance"
FOLDER = "control-plane/event-delivery"
PREPARE = "00-prepare.yaml"


@dataclass(frozen=True)
class ManifestPlacement:
    """Where and with which image the manifests are used."""

    namespace: str = NAMESPACE
    image: str | None = None
    """Image instead of the manifests' own, for clusters that cannot pull it."""
    sink: str | None = None
    """URL that emitters send to, instead of the manifests' own."""


def folder() -> Path:
    """The folder that the document calls `control-plane/event-delivery`."""
    return Path(str(files("penstock.conformance"))) / "manifests" / FOLDER


def load(name: str, placement: ManifestPlacement) -> list[Manifest]:
    """The objects of one file, placed."""
    text = (folder() / name).read_text()
    if placement.namespace != NAMESPACE:
        text = _moved(text, placement.namespace)
    return [_placed(document, placement) for document in yaml.safe_load_all(text) if document]


def sent_by(emitter: list[Manifest]) -> str:
    """What an emitter sends and where to, for people."""
    env = {entry["name"]: entry.get("value") for item in emitter for one in _containers(item) for entry in one["env"]}
    return f"{' '.join(str(env.get('INPUT_EVENT')).split())} to {env.get('SINK')}"


def _moved(text: str, namespace: str) -> str:
    """The text for another namespace: metadata, role bindings, and the names inside of the emitters' URLs."""
    text = text.replace(f"namespace: {NAMESPACE}\n", f"namespace: {namespace}\n")
    text = text.replace(f"kn-channel.{NAMESPACE}.svc", f"kn-channel.{namespace}.svc")
    text = text.replace(f"/{NAMESPACE}/conformance-broker", f"/{namespace}/conformance-broker")
    return text.replace(
        f"kind: Namespace\nmetadata:\n  name: {NAMESPACE}\n", f"kind: Namespace\nmetadata:\n  name: {namespace}\n"
    )


def _placed(document: Manifest, placement: ManifestPlacement) -> Manifest:
    for container in _containers(document):
        if placement.image:
            container["image"] = placement.image
        for entry in container.get("env") or ():
            if entry["name"] == "SINK" and placement.sink:
                entry["value"] = placement.sink
    return document


def _containers(document: Manifest) -> Iterator[Manifest]:
    if document["kind"] == "Pod":
        yield from document["spec"]["containers"]
