"""JobSink (sinks.knative.dev/v1alpha1): a Job for each event."""

from __future__ import annotations

import base64
import copy
import hashlib
from typing import Any
from urllib.parse import quote, unquote

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import conclude, true
from penstock.resources.destinations import ResolvedAddress, addresses
from penstock.resources.eventpolicy import TargetAccess
from penstock.resources.field_errors import FieldError, FieldErrors, within
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.pod_rules import pod_faults

# Model.


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
    """The path of the state of an event's Job."""
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
    """Mounts the event into every container that does not do so itself, and sets K_EVENT_PATH."""
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


# Defaults.


EXECUTION_MODE = "K_EXECUTION_MODE"


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_job(obj["spec"].get("job"))


def fill_job(job: dict[str, Any] | None) -> None:
    """Sets `K_EXECUTION_MODE` in every container of the Job: it runs once for each event."""
    pod = pod_of(job)
    for container in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]:
        env = container.get("env") or []
        if all(entry.get("name") != EXECUTION_MODE for entry in env):
            container["env"] = [*env, {"name": EXECUTION_MODE, "value": "batch"}]


def pod_of(job: dict[str, Any] | None) -> dict[str, Any]:
    """The Pod of a Job; empty where there is none."""
    template = ((job or {}).get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the JobSink."""
    job = (obj.get("spec") or {}).get("job")
    if job is None:
        return within("spec", [FieldError("expected exactly one, got neither", ("job",))])
    pod = pod_of(job)
    complaints = []
    if not pod.get("containers"):
        complaints.append("spec.template.spec.containers: Required value")
    complaints += [
        f"spec.template.spec.containers[{index}].{name}: Required value"
        for index, container in enumerate(pod.get("containers") or [])
        for name in ("name", "image")
        if not container.get(name)
    ]
    before = ((old or {}).get("spec") or {}).get("job")
    if not complaints and job != before:
        # The event's own volume is added to the Job that is made of this one.
        known = {**pod, "volumes": [*(pod.get("volumes") or []), *_event_volume(pod)]}
        complaints += [f"{fault.path}: {fault.text}" for fault in pod_faults(known, "spec.template.spec")]
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        complaints.append(_restart_complaint(pod.get("restartPolicy")))
    if not complaints:
        return []
    text = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
    name = (obj.get("metadata") or {}).get("name", "")
    return within("spec", [FieldError(f'Job.batch "{name}" is invalid: {text}', ("job",))])


def _event_volume(pod: Obj) -> list[Obj]:
    declared = any(volume.get("name") == VOLUME for volume in pod.get("volumes") or [])
    return [] if declared else [{"name": VOLUME, "emptyDir": {}}]


def _restart_complaint(given: object) -> str:
    path = "spec.template.spec.restartPolicy"
    if not given:
        return f'{path}: Required value: valid values: "OnFailure", "Never"'
    return f'{path}: Unsupported value: "{given}": supported values: "OnFailure", "Never"'


# Status.


def status_of(obj: Obj, known: tuple[ResolvedAddress, ...], access: TargetAccess, now: str) -> dict[str, Any]:
    """The JobSink's status: it takes events as soon as it is there, unless its EventPolicies are not ready."""
    identity = ObjectIdentity.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": identity.generation,
        "conditions": conclude(previous, [true("Addressable"), access.finding()], now),
        **addresses(*known),
        **access.fields(),
        "job": {"selector": selector_of(identity.name)},
    }
