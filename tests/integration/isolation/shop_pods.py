"""Pods that users of `shop` make, and what becomes of them."""

from __future__ import annotations

from typing import Any

from tests.integration.isolation.tenants import SHOP, Answer, Caller, Obj
from tests.running import Stack
from tests.waiting import eventually


def pod(name: str, spec: Obj, metadata: Obj | None = None) -> Obj:
    """A Pod that runs once."""
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def container(image: str, **more: Any) -> Obj:
    return {"name": "main", "image": image, **more}


def variables(**values: Any) -> list[Obj]:
    return [
        {"name": name, **({"valueFrom": value} if isinstance(value, dict) else {"value": value})}
        for name, value in values.items()
    ]


def shell(line: str, **more: Any) -> Obj:
    return container("test/shell", command=["sh", "-c", line], **more)


def sender(sink: str, **values: Any) -> Obj:
    """An eventshub that sends one request to a sink."""
    once = {"EVENT_GENERATORS": "sender", "EVENT_LOGS": "logger", "DELAY": "0", "PROBE_SINK": "false", "SINK": sink}
    what = {} if values.keys() & {"INPUT_YAML", "FROM_FILES", "INPUT_BODY"} else {"INPUT_BODY": "hello"}
    return container("eventshub", env=variables(**{**once, **what, **values}))


def curl(*words: str) -> Obj:
    """A program that sends a request by the names of the cluster, and prints the answer."""
    return container("test/shell", command=["curl", "-sS", "--path-as-is", "--max-time", "100", *words])


class Pods:
    """Pods that a user makes, and what becomes of them."""

    def __init__(self, stack: Stack, admin: Caller) -> None:
        self._log, self._admin = stack.settings.data_dir / "logs" / "control.log", admin

    def ended(self, selector: str) -> list[Obj]:
        """The Pods, once their programs have ended or cannot be started."""

        def look() -> list[Obj] | None:
            found: list[Obj] = self._admin.get(f"/api/v1/namespaces/{SHOP}/pods?{selector}")["items"]
            return found if found and all(has_ended(one) or self._is_in_vain(one) for one in found) else None

        pods: list[Obj] = eventually(look, 120)
        return pods

    def has_ended(self, name: str) -> bool:
        """Whether the program of a Pod has ended."""
        return has_ended(self._admin.get(f"/api/v1/namespaces/{SHOP}/pods/{name}"))

    def ran(self, user: Caller, obj: Obj) -> Answer | Obj:
        """What the API answers where it refuses the Pod; otherwise the Pod, once its program has ended."""
        answer = user.create(obj)
        if answer.status != 201:
            assert answer.status in (400, 403, 422), answer
            assert "metadata.name" not in answer.body, answer
            return answer
        return self.ended(f"fieldSelector=metadata.name%3D{obj['metadata']['name']}")[0]

    def log(self, name: str) -> str:
        """What the Pod has written, with the file of the run before."""
        path = f"/api/v1/namespaces/{SHOP}/pods/{name}/log"
        return "\n".join(self._admin.call("GET", f"{path}?previous={flag}").body for flag in ("false", "true"))

    def asked(self, user: Caller, name: str, *words: str) -> str:
        """What `curl` prints in a Pod."""
        assert not isinstance(self.ran(user, pod(name, {"containers": [curl(*words)]})), Answer)
        return self.log(name)

    def _is_in_vain(self, one: Obj) -> bool:
        """Whether the node has tried to start the Pod and says in its log why it could not."""
        named = f'"pod":"{SHOP}/{one["metadata"]["name"]}"'
        return any(named in line for line in self._log.read_text().splitlines())


def states(one: Obj) -> list[Obj]:
    """The states of a Pod's containers, those before among them."""
    status = one.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [each.get(field) or {} for each in containers for field in ("state", "lastState")]


def has_ended(one: Obj) -> bool:
    """Whether the program of a Pod has ended, or waits because it cannot be started."""
    starting = (None, "ContainerCreating", "PodInitializing")
    return (one.get("status") or {}).get("phase") in ("Succeeded", "Failed") or any(
        "terminated" in state or (state.get("waiting") or {}).get("reason") not in starting for state in states(one)
    )


def is_settled(one: Obj) -> bool:
    """Whether the program of a Pod has ended, cannot be started, or runs."""
    return has_ended(one) or any("running" in state for state in states(one))
