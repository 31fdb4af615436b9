"""Defaults and validation of Jobs, CronJobs, Deployments and ReplicaSets.

Fixed defaults are in the schema; here are those that depend on the rest of the object, and the rules of Kubernetes with
its messages.
"""

from __future__ import annotations

from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.documents import encode, meta
from penstock.apiserver.kinds.schema import Complaint
from penstock.kube.kinds import Obj
from penstock.resources.metadata import selector_matches
from penstock.resources.pod_rules import Fault, pod_faults
from penstock.resources.schedules import BadLocation, BadSchedule, parse

_BATCH, _APPS = "batch", "apps"
_CHOSEN_LABELS = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)
MAX_CRONJOB_NAME = 52
"""A CronJob's Jobs are named after it and the minute they are for."""


def job(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    """Selects the Job's Pods by its uid, unless it has `manualSelector`."""
    spec = _spec(_BATCH, "Job", obj)
    _default_job(spec)
    if old is None:
        _take_labels(obj)
        if not spec.get("manualSelector"):
            _select_by_uid(obj)
        obj["status"] = {}
    else:
        _keep_selection(spec, old["spec"])
    before = _stored_spec(old).get("template")
    complaints = _check_template(spec["template"], before, "spec.template", ("OnFailure", "Never"))
    complaints += _not_negative(spec, "spec", ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"))
    complaints += _not_negative(spec, "spec", ("ttlSecondsAfterFinished",))
    complaints += _selects_its_template(spec)
    if old is not None:
        fixed = ["selector", "completionMode"] + ["completions"] * (spec.get("completionMode") != "Indexed")
        complaints += _unchanged(spec, old["spec"], (*fixed, "template"))
    _refuse(_BATCH, "Job", obj, complaints)


def _default_job(spec: Obj) -> None:
    for field, value in (("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
        if spec.get(field) is None:
            spec[field] = value
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1


def _select_by_uid(obj: Obj) -> None:
    uid, name, template = meta(obj)["uid"], meta(obj)["name"], obj["spec"]["template"]
    own = {label: uid if label.endswith("uid") else name for label in _CHOSEN_LABELS}
    meta(template)["labels"] = {**(meta(template).get("labels") or {}), **own}
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _keep_selection(spec: Obj, before: Obj) -> None:
    """Keeps the generated selector and labels, also for clients that write only their own fields (as in an apply)."""
    selector = before.get("selector") or {}
    spec.setdefault("selector", selector)
    if spec.get("manualSelector") or not isinstance(spec.get("template"), dict):
        return
    chosen = {
        key: value for key, value in (meta(before["template"]).get("labels") or {}).items() if key in _CHOSEN_LABELS
    }
    meta(spec["template"])["labels"] = {**chosen, **(meta(spec["template"]).get("labels") or {})}


def cronjob(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    """A CronJob's template is a Job without an identity."""
    spec = _spec(_BATCH, "CronJob", obj)
    if old is None:
        obj["status"] = {}
    complaints: list[Complaint] = []
    complaints += _check_schedule(spec)
    if len(meta(obj)["name"]) > MAX_CRONJOB_NAME:
        shown = f'Invalid value: "{meta(obj)["name"]}": must be no more than {MAX_CRONJOB_NAME} characters'
        complaints.append(("metadata.name", "FieldValueInvalid", shown))
    allowed = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in allowed:
        complaints.append(_unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), allowed))
    counted = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    complaints += _not_negative(spec, "spec", counted)
    template = spec["jobTemplate"].get("spec") or {}
    path = "spec.jobTemplate.spec"
    before = _stored_spec(_stored_spec(old).get("jobTemplate")).get("template")
    complaints += _check_template(template.get("template") or {}, before, f"{path}.template", ("OnFailure", "Never"))
    complaints += _not_negative(template, path, ("parallelism", "completions", "backoffLimit"))
    _refuse(_BATCH, "CronJob", obj, complaints)


def _check_schedule(spec: Obj) -> list[Complaint]:
    line, zone = str(spec.get("schedule") or ""), spec.get("timeZone")
    if not line:
        return [("spec.schedule", "FieldValueRequired", "Required value")]
    if "TZ" in line:
        sentence = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [("spec.schedule", "FieldValueInvalid", f"Invalid value: {_shown(line)}: {sentence}")]
    fields = line.split()
    if not line.startswith("@") and len(fields) != 5:
        sentence = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        return [("spec.schedule", "FieldValueInvalid", f"Invalid value: {_shown(line)}: {sentence}")]
    try:
        parse(line, zone or "")
    except BadLocation:
        return [("spec.timeZone", "FieldValueInvalid", f"Invalid value: {_shown(zone)}: unknown time zone {zone}")]
    except BadSchedule as error:
        return [("spec.schedule", "FieldValueInvalid", f"Invalid value: {_shown(line)}: {error}")]
    return []


def deployment(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    """Defaults the strategy to a rolling update of a quarter of the Pods at a time."""
    strategy = _spec(_APPS, "Deployment", obj).setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = {"maxSurge": "25%", "maxUnavailable": "25%", **rolling}
    complaints: list[Complaint] = []
    if strategy["type"] not in ("Recreate", "RollingUpdate"):
        complaints.append(_unsupported("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate")))
    elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        sentence = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        complaints.append(("spec.strategy.rollingUpdate", "FieldValueForbidden", sentence))
    _replicated("Deployment", obj, old, complaints)


def replicaset(obj: Obj, old: Obj | None, _number: int, _now: str) -> None:
    """As many Pods as it says."""
    _replicated("ReplicaSet", obj, old, [])


def _replicated(kind: str, obj: Obj, old: Obj | None, complaints: list[Complaint]) -> None:
    spec = _spec(_APPS, kind, obj)
    if old is None:
        obj["status"] = {}
    template = spec.get("template") or {}
    complaints += _not_negative(spec, "spec", ("replicas", "minReadySeconds", "revisionHistoryLimit"))
    complaints += _check_template(template, _stored_spec(old).get("template"), "spec.template", ("Always",))
    complaints += _selects_its_template(spec)
    if old is not None:
        complaints += _unchanged(spec, old["spec"], ("selector",))
    _refuse(_APPS, kind, obj, complaints)


def _spec(group: str, kind: str, obj: Obj) -> Obj:
    if not isinstance(obj.get("spec"), dict):
        _refuse(group, kind, obj, [("spec", "FieldValueRequired", "Required value")])
    spec: Obj = obj["spec"]
    return spec


def _stored_spec(old: Obj | None) -> Obj:
    return (old or {}).get("spec") or {}


def _take_labels(obj: Obj) -> None:
    """An object without labels of its own has those of its Pods."""
    labels = meta(obj["spec"].get("template") or {}).get("labels") or {}
    if not meta(obj).get("labels") and labels:
        meta(obj)["labels"] = dict(labels)


def _selects_its_template(spec: Obj) -> list[Complaint]:
    selector = spec.get("selector")
    if selector is None:
        return [("spec.selector", "FieldValueRequired", "Required value")]
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [("spec.selector", "FieldValueInvalid", "Invalid value: {}: empty selector is invalid for deployment")]
    labels = meta(spec.get("template") or {}).get("labels") or {}
    if selector_matches(selector, labels):
        return []
    sentence = f"Invalid value: {_shown(labels)}: `selector` does not match template `labels`"
    return [("spec.template.metadata.labels", "FieldValueInvalid", sentence)]


def _check_template(template: Obj, before: Obj | None, path: str, allowed: tuple[str, ...]) -> list[Complaint]:
    """`before` is the stored template. Names are checked only if it changes: it may be older than these rules."""
    where, spec = f"{path}.spec.restartPolicy", template.get("spec") or {}
    if not spec.get("containers"):
        return [(f"{path}.spec.containers", "FieldValueRequired", "Required value")]
    policy, complaints = spec.get("restartPolicy"), []
    if before is None or spec != before.get("spec"):
        complaints += complaints_of(pod_faults(spec, f"{path}.spec"))
    if policy == "Always" and policy not in allowed:
        listed = ", ".join(f'"{one}"' for one in allowed)
        complaints.append((where, "FieldValueRequired", f"Required value: valid values: {listed}"))
    elif policy not in allowed:
        complaints.append(_unsupported(where, policy, allowed))
    return complaints


def complaints_of(faults: list[Fault]) -> list[Complaint]:
    """Faults in the form of the server's errors."""
    return [(fault.path, fault.reason, fault.text) for fault in faults]


def _not_negative(spec: Obj, path: str, fields: tuple[str, ...]) -> list[Complaint]:
    return [
        (f"{path}.{field}", "FieldValueInvalid", f"Invalid value: {spec[field]}: must be greater than or equal to 0")
        for field in fields
        if isinstance(spec.get(field), int) and spec[field] < 0
    ]


def _unchanged(spec: Obj, before: Obj, fields: tuple[str, ...]) -> list[Complaint]:
    return [
        (f"spec.{field}", "FieldValueInvalid", f"Invalid value: {_shown(spec.get(field))}: field is immutable")
        for field in fields
        if spec.get(field) != before.get(field)
    ]


def _unsupported(path: str, value: Any, allowed: tuple[str, ...]) -> Complaint:
    listed = ", ".join(f'"{one}"' for one in allowed)
    return path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}"


def _shown(value: Any) -> str:
    text = encode(value).decode()
    return text if len(text) <= 400 else text[:400] + "…"


def _refuse(group: str, kind: str, obj: Obj, complaints: list[Complaint]) -> None:
    if complaints:
        raise errors.invalid(group, kind, meta(obj)["name"], complaints)


RULES = {
    "jobs.batch": job,
    "cronjobs.batch": cronjob,
    "deployments.apps": deployment,
    "replicasets.apps": replicaset,
}
