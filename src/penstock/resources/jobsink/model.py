"""What a JobSink makes of an event: a Job from its template, and a Secret with the event, which the Job's Pods mount.

Both have a name that follows from the event's source and id, so that an event that comes again makes nothing new.
"""

from __future__ import annotations

import base64
import copy
import hashlib
from typing import Any
from urllib.parse import quote, unquote

from penstock.resources.admission import Obj
from penstock.resources.jobsink.defaults import fill_job
from penstock.resources.metadata import ObjectIdentity

GROUP, KIND, PLURAL = "sinks.knative.dev", "JobSink", "jobsinks"

NAME_LABEL = "sinks.knative.dev/job-sink-name"
ID_LABEL = "sinks.knative.dev/job-sink-id"
VOLUME, MOUNT_PATH, PATH_VARIABLE, FILE = "jobsink-event", "/etc/jobsink-event", "K_EVENT_PATH", "event"

_LONGEST_NAME, _DIGEST = 63, 32


def selector_of(name: str) -> str:
    """What selects the Jobs of a JobSink."""
    return f"{NAME_LABEL}={name}"


def job_name(sink: str, source: str, event_id: str) -> str:
    """The name of the Job of an event, and of its Secret."""
    parent, suffix = f"{sink}-", _md5(source + event_id)
    if len(parent) + len(suffix) <= _LONGEST_NAME:
        return parent + suffix
    cut = parent[: _LONGEST_NAME - _DIGEST] + _md5(parent + suffix)
    return cut.rstrip("-.")


def job_of(sink: Obj, name: str) -> Obj:
    """The Job."""
    job = copy.deepcopy((sink.get("spec") or {}).get("job") or {})
    fill_job(job)
    metadata = job.get("metadata") or {}
    owner = _owner(sink["apiVersion"], KIND, sink)
    job |= {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **{key: metadata[key] for key in ("annotations",) if metadata.get(key)},
            "name": name,
            "namespace": ObjectIdentity.read(sink).namespace,
            "labels": {**(metadata.get("labels") or {}), **_labels(sink, name)},
            "ownerReferences": [owner],
        },
    }
    job.pop("status", None)
    _mount(job["spec"]["template"]["spec"], name)
    return job


def secret_of(sink: Obj, job: Obj, event: bytes) -> Obj:
    """The Secret that holds the event; it goes with the Job."""
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": ObjectIdentity.read(sink).namespace,
            "labels": _labels(sink, name),
            "ownerReferences": [_owner("batch/v1", "Job", job)],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {FILE: base64.b64encode(event).decode()},
    }


def location_of(namespace: str, name: str, source: str, event_id: str) -> str:
    """Where the state of an event's Job can be asked for."""
    parts = ("namespaces", namespace, "name", name, "sources", source, "ids", event_id)
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def read_location(path: str) -> tuple[str, str, str, str] | None:
    """Namespace, name, source and id of a location as it was sent, not decoded; None: it is none."""
    parts = path.rstrip("/").split("/")
    if len(parts) != 9 or parts[0] or parts[1::2] != ["namespaces", "name", "sources", "ids"]:
        return None
    namespace, name, source, event_id = (unquote(part) for part in parts[2::2])
    return namespace, name, source, event_id


def _labels(sink: Obj, name: str) -> dict[str, str]:
    return {ID_LABEL: name, NAME_LABEL: ObjectIdentity.read(sink).name}


def _owner(api_version: str, kind: str, owner: Obj) -> dict[str, Any]:
    identity = ObjectIdentity.read(owner)
    reference = {"apiVersion": api_version, "kind": kind, "name": identity.name, "uid": identity.uid}
    return {**reference, "controller": True, "blockOwnerDeletion": False}


def _mount(pod: dict[str, Any], secret: str) -> None:
    """Mounts the event into every container that does not do so itself, and tells all where it is."""
    path = MOUNT_PATH
    for container in pod.get("containers") or []:
        mounts = container.setdefault("volumeMounts", [])
        own = next((mount for mount in mounts if mount.get("name") == VOLUME), None)
        if own is None:
            own = {"name": VOLUME, "readOnly": True, "mountPath": MOUNT_PATH}
            mounts.append(own)
        path = own.get("mountPath") or MOUNT_PATH
        container["env"] = [*(container.get("env") or []), {"name": PATH_VARIABLE, "value": path}]
    volumes = pod.setdefault("volumes", [])
    if all(volume.get("name") != VOLUME for volume in volumes):
        volumes.append({"name": VOLUME, "secret": {"secretName": secret}})


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
