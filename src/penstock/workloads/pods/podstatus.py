"""The status of a Pod from the state of its containers: what `kubectl get pods` and `describe` show.

Pure: the node reports states, this turns them into phase, conditions and containerStatuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HOST_IP = "127.0.0.1"


@dataclass(frozen=True)
class Waiting:
    """Not running, with the reason."""

    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True)
class Running:
    """Running."""

    started: str
    ready: bool = True
    up: bool = True
    """Whether its startup probe, if it has one, has succeeded."""


@dataclass(frozen=True)
class Terminated:
    """Ended."""

    exit_code: int
    started: str
    finished: str
    message: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        return self.why or ("Completed" if self.exit_code == 0 else "Error")


State = Waiting | Running | Terminated


@dataclass(frozen=True)
class Container:
    """One container of the Pod."""

    name: str
    image: str
    state: State = field(default_factory=Waiting)
    last: Terminated | None = None
    restarts: int = 0
    init: bool = False


def phase_of(containers: Sequence[Container]) -> str:
    """The Pod's phase in one word."""
    inits = [container for container in containers if container.init]
    if any(isinstance(init.state, Terminated) and init.state.exit_code for init in inits):
        return "Failed"
    if not _initialized(containers):
        return "Pending"
    mains = [container for container in containers if not container.init]
    if all(isinstance(container.state, Terminated) for container in mains):
        failed = any(isinstance(c.state, Terminated) and c.state.exit_code for c in mains)
        return "Failed" if failed else "Succeeded"
    begun = any(not isinstance(c.state, Waiting) or c.last is not None or c.restarts for c in mains)
    return "Running" if begun else "Pending"


def _initialized(containers: Sequence[Container]) -> bool:
    return all(isinstance(c.state, Terminated) and c.state.exit_code == 0 for c in containers if c.init)


def running_status(
    pod: Mapping[str, Any], containers: Sequence[Container], ip: str, started: str, now: str
) -> dict[str, Any]:
    """The status of a Pod that this node has taken."""
    phase = phase_of(containers)
    mains = [container for container in containers if not container.init]
    inits = [container for container in containers if container.init]
    unready = [c.name for c in mains if not (isinstance(c.state, Running) and c.state.ready)]
    status = {
        "phase": phase,
        "conditions": _conditions(pod, now, [_init_condition(inits), *_readiness(phase, unready)]),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": started,
        "qosClass": "BestEffort",
        "containerStatuses": [_container_status(pod, container) for container in mains],
    }
    return status | ({"initContainerStatuses": [_container_status(pod, init) for init in inits]} if inits else {})


def lost_status(pod: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The status of a Pod that was running when this node stopped and may not be started again."""
    status = dict(pod.get("status") or {})
    message = "The node was stopped while the Pod ran, and its restartPolicy is Never."
    unready = [{"type": kind, "status": "False", "reason": "PodFailed"} for kind in ("Ready", "ContainersReady")]
    kept = [{"type": kind, "status": "True"} for kind in ("Initialized", "PodScheduled")]
    statuses = []
    for container in status.get("containerStatuses") or ():
        ended = {"exitCode": 137, "reason": "Error", "message": message, "finishedAt": now}
        running = (container.get("state") or {}).get("running")
        state = {"terminated": ended} if running is not None else container.get("state")
        statuses.append({**container, "ready": False, "started": False, "state": state})
    return status | {
        "phase": "Failed",
        "reason": "NodeLost",
        "message": message,
        "conditions": _conditions(pod, now, [*kept, *unready]),
        "containerStatuses": statuses,
    }


def _init_condition(inits: Sequence[Container]) -> dict[str, str]:
    if _initialized(inits):
        return {"type": "Initialized", "status": "True"}
    waiting = [c.name for c in inits if not (isinstance(c.state, Terminated) and c.state.exit_code == 0)]
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized", "message": message}


def _readiness(phase: str, unready: list[str]) -> list[dict[str, str]]:
    always = [{"type": "PodScheduled", "status": "True"}]
    if not unready:
        ready = {"status": "True"}
    elif phase == "Succeeded":
        ready = {"status": "False", "reason": "PodCompleted"}
    elif phase == "Failed":
        ready = {"status": "False", "reason": "PodFailed"}
    else:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    return [*always, {"type": "ContainersReady", **ready}, {"type": "Ready", **ready}]


def _conditions(pod: Mapping[str, Any], now: str, wanted: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The wanted conditions; one whose status did not change keeps the time of its last transition."""
    before = {condition["type"]: condition for condition in (pod.get("status") or {}).get("conditions") or ()}
    conditions = []
    for condition in wanted:
        old = before.get(condition["type"], {})
        same = old.get("status") == condition["status"] and old.get("lastTransitionTime")
        conditions.append({**condition, "lastTransitionTime": old["lastTransitionTime"] if same else now})
    return conditions


def _container_status(pod: Mapping[str, Any], container: Container) -> dict[str, Any]:
    running = isinstance(container.state, Running) and container.state.up
    done = container.init and isinstance(container.state, Terminated) and container.state.exit_code == 0
    return {
        "name": container.name,
        "image": container.image,
        "imageID": container.image,
        "containerID": f"penstock://{pod['metadata'].get('uid', '')}/{container.name}/{container.restarts}",
        "ready": done or (isinstance(container.state, Running) and container.state.ready),
        "started": running,
        "restartCount": container.restarts,
        "state": _state(container.state),
        "lastState": _state(container.last) if container.last else {},
    }


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting():
            message = {"message": state.message} if state.message else {}
            return {"waiting": {"reason": state.reason, **message}}
        case Running():
            return {"running": {"startedAt": state.started}}
        case Terminated():
            message = {"message": state.message} if state.message else {}
            return {
                "terminated": {
                    "exitCode": state.exit_code,
                    "reason": state.reason,
                    **message,
                    "startedAt": state.started,
                    "finishedAt": state.finished,
                }
            }
