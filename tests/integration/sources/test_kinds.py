"""Sources on the whole stack: their events reach a subscriber, and kubectl shows what a person looks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "sources"
SINK = "ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}"
DISPLAY = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default, namespace: sources}
---
apiVersion: v1
kind: Pod
metadata: {name: display, namespace: sources, labels: {app: display}}
spec: {containers: [{name: user-container, image: ko.local/event_display}]}
---
apiVersion: v1
kind: Service
metadata: {name: display, namespace: sources}
spec: {selector: {app: display}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: display, namespace: sources}
spec:
  broker: default
  subscriber: {ref: {apiVersion: v1, kind: Service, name: display}}
"""
PING = f"""
apiVersion: sources.knative.dev/v1
kind: PingSource
metadata: {{name: ticks, namespace: sources}}
spec:
  schedule: "* * * * * *"
  contentType: application/json
  data: '{{"tick": "tock"}}'
  sink: {{{SINK}}}
"""
WATCH = f"""
apiVersion: sources.knative.dev/v1
kind: ApiServerSource
metadata: {{name: maps, namespace: sources}}
spec:
  serviceAccountName: watcher
  mode: Resource
  resources: [{{apiVersion: v1, kind: ConfigMap, selector: {{matchLabels: {{watched: "yes"}}}}}}]
  sink: {{{SINK}}}
"""
SCRIPT = (
    "while sleep 1; do curl -sS -H 'ce-specversion: 1.0' -H ce-id:$(date +%s) -H ce-source:/beats -H ce-type:beat "
    "-H 'content-type: application/json' -d $KIND_OF_BEAT $K_SINK; done"
)
CONTAINER = f"""
apiVersion: sources.knative.dev/v1
kind: ContainerSource
metadata: {{name: beats, namespace: sources}}
spec:
  template:
    spec:
      containers:
        - image: test/shell
          command: [sh, -c]
          args: [{json.dumps(SCRIPT)}]
          env: [{{name: KIND_OF_BEAT, value: '"contained"'}}]
  sink: {{{SINK}}}
"""
BINDING = f"""
apiVersion: sources.knative.dev/v1
kind: SinkBinding
metadata: {{name: beats, namespace: sources}}
spec:
  subject: {{apiVersion: batch/v1, kind: Job, selector: {{matchLabels: {{app: beats}}}}}}
  sink: {{{SINK}}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: bound, namespace: sources, labels: {app: beats}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: test/shell, command: [sh, -c, "echo sink $K_SINK"]}]
"""


@pytest.fixture(scope="module")
def cluster(stack: Stack) -> Iterator[Stack]:
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.apply(DISPLAY)
    wait(stack, "trigger/display")
    yield stack
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def wait(stack: Stack, what: str, condition: str = "Ready") -> None:
    stack.kubectl("-n", NAMESPACE, "wait", f"--for=condition={condition}", what, "--timeout=120s", timeout=150)


def shown(stack: Stack) -> str:
    return stack.kubectl("-n", NAMESPACE, "logs", "display")


def tells(stack: Stack, text: str) -> bool:
    return text in shown(stack)


def test_a_pingsource_fires_every_tick_once(cluster: Stack) -> None:
    cluster.apply(PING)
    wait(cluster, "pingsource/ticks")
    times = eventually(lambda: ticks(cluster) if len(ticks(cluster)) > 3 else None, 120)
    assert len(times) == len(set(times))
    listed = cluster.kubectl("-n", NAMESPACE, "get", "pingsources")
    assert "* * * * * *" in listed
    cluster.kubectl("-n", NAMESPACE, "delete", "pingsource", "ticks")


def ticks(stack: Stack) -> list[str]:
    """The times of the ticks that were shown."""
    events = shown(stack).split("cloudevents.Event")
    pings = [event for event in events if "dev.knative.sources.ping" in event and '"tock"' in event]
    return [line.split()[1] for event in pings for line in event.splitlines() if line.strip().startswith("time:")]


def test_a_schedule_that_never_fires_is_refused(cluster: Stack) -> None:
    never = PING.replace("* * * * * *", "0 0 30 2 *").replace("ticks", "never")
    answer = cluster.kubectl("apply", "-f", "-", stdin=never, check=False)
    assert "invalid value: schedule never fires: spec.schedule" in answer


def test_an_apiserversource_tells_what_its_account_may_see(cluster: Stack) -> None:
    cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", "watcher")
    cluster.apply(WATCH)
    asked = ("get", "apiserversource", "maps", "-o", "jsonpath={.status.conditions}")
    eventually(lambda: "cannot get, list, watch" in cluster.kubectl("-n", NAMESPACE, *asked), 120)
    cluster.kubectl(*("-n", NAMESPACE, "create", "role", "watcher", "--verb=get,list,watch", "--resource=configmaps"))
    cluster.kubectl(
        *("-n", NAMESPACE, "create", "rolebinding", "watcher", "--role=watcher"),
        f"--serviceaccount={NAMESPACE}:watcher",
    )
    wait(cluster, "apiserversource/maps")
    cluster.kubectl("-n", NAMESPACE, "create", "configmap", "colours", "--from-literal=sky=blue")
    cluster.kubectl("-n", NAMESPACE, "label", "configmap", "colours", "watched=yes")
    cluster.kubectl("-n", NAMESPACE, "delete", "configmap", "colours")
    for change in ("add", "delete"):  # each is delivered on its own, in whatever order
        eventually(partial(tells, cluster, f"dev.knative.apiserver.resource.{change}"), 120)
    cluster.kubectl("-n", NAMESPACE, "delete", "apiserversource", "maps")


def test_a_containersource_runs_a_program_that_knows_its_sink(cluster: Stack) -> None:
    cluster.apply(CONTAINER)
    wait(cluster, "containersource/beats")
    eventually(lambda: "contained" in shown(cluster), 120)
    cluster.kubectl("-n", NAMESPACE, "delete", "containersource", "beats")
    gone = ("get", "deploy,sinkbindings", "-o", "name")
    eventually(lambda: cluster.kubectl("-n", NAMESPACE, *gone) == "", 120)


def test_a_job_is_bound_before_it_is_stored(cluster: Stack) -> None:
    cluster.apply(BINDING)
    wait(cluster, "sinkbinding/beats")
    cluster.apply(JOB)
    wait(cluster, "job/bound", "complete")
    assert f"/{NAMESPACE}/default" in cluster.kubectl("-n", NAMESPACE, "logs", "job/bound")
    cluster.kubectl("-n", NAMESPACE, "delete", "sinkbinding", "beats", timeout=120)
