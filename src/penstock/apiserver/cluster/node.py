"""The only Node: this machine, which runs the Pods. Read-only, and updated at every start."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from penstock.kube.kinds import Obj
from penstock.resources.metadata import NODE_NAME
from penstock.runtime.times import rfc3339


def node(address: str, version: str) -> Obj:
    """The Node of this machine; `version` is that of the Kubernetes API."""
    labels = {"os": platform.system().lower(), "arch": _architecture(), "hostname": NODE_NAME}
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{_memory_bytes() // 1024}Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE_NAME,
            "labels": {f"kubernetes.io/{name}": value for name, value in labels.items()},
        },
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": NODE_NAME}],
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [_ready(rfc3339())],
            "nodeInfo": _info(version),
        },
    }


def refreshed(old: Obj, new: Obj) -> Obj:
    """The stored Node with the current status. Its conditions stay: it has been ready since it was created."""
    return {**old, "status": {**new["status"], "conditions": old["status"]["conditions"]}}


def _ready(since: str) -> Obj:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "StackRunning",
        "message": "Pods of the images recordevents and eventshub run here",
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }


def _info(version: str) -> Obj:
    return {
        "architecture": _architecture(),
        "operatingSystem": platform.system().lower(),
        "osImage": _system_name(),
        "kernelVersion": platform.release(),
        "containerRuntimeVersion": f"penstock://{metadata.version('penstock')}",
        "kubeletVersion": version,
        # Required by Kubernetes, but of no use with a single machine.
        "kubeProxyVersion": "",
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
    }


def _architecture() -> str:
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
