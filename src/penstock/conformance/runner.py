"""Runs the event delivery tests: the instructions of the document, step by step.

Together, each test in a namespace of its own, or one after the other in the namespace `conformance` as the document
has it. Either way the steps are the same: create the scenario, wait until it is ready, create the emitter, read what
the sinks observed, wait a little for observations too many, judge, clean up.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from penstock.conformance import catalog, judging
from penstock.conformance.catalog import LATE_SECONDS, PREPARE, SETTLE_SECONDS, DeliveryTest, ManifestPlacement
from penstock.conformance.cluster import Cluster, NotReady
from penstock.conformance.judging import Observation, enough, judge
from penstock.conformance.report import ConformanceResult
from penstock.kube.errors import KubeError

READY_SECONDS = 60.0
EMITTER_SECONDS = 30.0
"""Time for the emitter to start (it waits 5 s by itself) and for the first delivery."""
DELETE_SECONDS = 30.0


@dataclass(frozen=True)
class RunOptions:
    """How to run."""

    sequential: bool = False
    image: str | None = None
    use_addresses: bool = False
    """Send to `status.address.url` instead of the hard-coded names, for Brokers with another ingress."""
    keep: bool = False
    """Leave everything there afterwards, to look at."""
    late: float = LATE_SECONDS
    """Seconds by which a retry may come after its time."""
    suffix: str = field(default_factory=lambda: secrets.token_hex(2))


async def run(
    cluster: Cluster, tests: Sequence[DeliveryTest], options: RunOptions, done: Callable[[ConformanceResult], None]
) -> list[ConformanceResult]:
    """Runs the tests and hands over each result at once; returns all of them in the order of the tests."""
    if options.sequential:
        return await _one_after_the_other(cluster, tests, options, done)

    async def alone(test: DeliveryTest) -> ConformanceResult:
        namespace = f"{catalog.NAMESPACE}-{test.number}-{options.suffix}"
        result = await _guarded(test, _with_namespace(cluster, test, namespace, options))
        done(result)
        return result

    return list(await asyncio.gather(*(alone(test) for test in tests)))


async def _one_after_the_other(
    cluster: Cluster, tests: Sequence[DeliveryTest], options: RunOptions, done: Callable[[ConformanceResult], None]
) -> list[ConformanceResult]:
    placement = ManifestPlacement(image=options.image)
    await _prepare(cluster, placement)
    results = []
    try:
        for test in tests:
            results.append(await _guarded(test, _run(cluster, test, placement, options)))
            done(results[-1])
            if not options.keep:
                await cluster.delete_case(placement.namespace, test.name)
    finally:
        if not options.keep:
            await cluster.delete_namespace(placement.namespace, DELETE_SECONDS)
    return results


async def _with_namespace(
    cluster: Cluster, test: DeliveryTest, namespace: str, options: RunOptions
) -> ConformanceResult:
    placement = ManifestPlacement(namespace, options.image)
    try:
        await _prepare(cluster, placement)
        return await _run(cluster, test, placement, options)
    finally:
        if not options.keep:
            await cluster.delete_namespace(namespace, DELETE_SECONDS)


async def _prepare(cluster: Cluster, placement: ManifestPlacement) -> None:
    await cluster.create(catalog.load(PREPARE, placement))
    await cluster.until_ready(placement.namespace, ("Channel", "Broker"), {}, READY_SECONDS)


async def _guarded(test: DeliveryTest, running: Awaitable[ConformanceResult]) -> ConformanceResult:
    """A test that cannot be carried out has failed, and says why."""
    started = time.monotonic()
    try:
        return await running
    except (NotReady, KubeError) as error:
        return ConformanceResult(test.id, "failed", round(time.monotonic() - started, 2), (str(error),))


async def _run(
    cluster: Cluster, test: DeliveryTest, placement: ManifestPlacement, options: RunOptions
) -> ConformanceResult:
    started = time.monotonic()
    namespace, labels = placement.namespace, {"case": test.name}
    await cluster.create(catalog.load(test.scenario, placement))
    await cluster.until_ready(namespace, (test.kind, "Pod"), labels, READY_SECONDS)
    if options.use_addresses:
        placement = ManifestPlacement(namespace, placement.image, await _address(cluster, test, namespace))
    pods = await _sinks(cluster, test, namespace)
    emitter = catalog.load(test.emitter, placement)
    await cluster.create(emitter)
    observed = await _observe(cluster, test, namespace, pods, options.late)
    problems = judge(test, namespace, observed, options.late)
    evidence = [f"sent: {catalog.sent_by(emitter)}"]
    evidence += [f"{component}: {seen.text}" for component, all_seen in observed.items() for seen in all_seen]
    return ConformanceResult(
        test.id,
        "failed" if problems else "passed",
        round(time.monotonic() - started, 2),
        tuple(problems),
        tuple(evidence),
    )


async def _address(cluster: Cluster, test: DeliveryTest, namespace: str) -> str:
    kind = "Channel" if test.kind == "Subscription" else "Broker"
    return await cluster.address_of(kind, namespace, f"conformance-{kind.lower()}")


async def _sinks(cluster: Cluster, test: DeliveryTest, namespace: str) -> dict[str, str]:
    """The Pod behind each sink of the test."""
    pods = await cluster.listed("Pod", namespace, {"case": test.name})
    return {pod["metadata"]["labels"]["component"]: pod["metadata"]["name"] for pod in pods}


async def _observe(
    cluster: Cluster, test: DeliveryTest, namespace: str, pods: dict[str, str], late: float
) -> dict[str, list[Observation]]:
    """The observations of the sinks until there are enough or the time is up, and shortly afterwards."""
    retries = max(len(sink.observations) for sink in test.sinks) - 1
    deadline = time.monotonic() + test.seconds + retries * late + EMITTER_SECONDS
    while True:
        observed = {component: judging.read(await cluster.observed(namespace, pod)) for component, pod in pods.items()}
        if time.monotonic() >= deadline:
            return observed
        if enough(test, observed):
            deadline = min(deadline, time.monotonic() + SETTLE_SECONDS)
        await asyncio.sleep(0.5)
