"""Jobs, CronJobs, Deployments, ReplicaSets, Leases and EndpointSlices: what is filled in, refused, shown and scaled."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest

from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds import discovery, openapi, tables
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.kinds.scale import scale_of, scaled
from penstock.apiserver.store.storage import Transaction
from penstock.apiserver.verbs.admission import AdmissionChain
from penstock.apiserver.verbs.writing import Verbs, WriteTarget

Obj = dict[str, Any]
KINDS = {kind.kind: kind for kind in CORE_KINDS}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERBS = Verbs(Registry(CORE_KINDS), AdmissionChain(), lambda: NOW)


def target(kind: str, name: str = "", subresource: str = "") -> WriteTarget:
    found = KINDS[kind]
    return WriteTarget(found, "ns" if found.namespaced else "", name, "user", "tests", subresource)


@pytest.fixture
def tx() -> Iterator[Transaction]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(files("penstock.apiserver.store").joinpath("tables.sql").read_text())
    tx = Transaction(connection)
    VERBS.create(tx, target("Namespace"), {"metadata": {"name": "ns"}})
    yield tx
    connection.close()


def pods(restart: str | None = None, **labels: str) -> Obj:
    spec: Obj = {"containers": [{"name": "main", "image": "example/one"}]}
    if restart:
        spec["restartPolicy"] = restart
    return {"metadata": {"labels": labels}, "spec": spec}


def job(**more: Any) -> Obj:
    return {"metadata": {"name": "j"}, "spec": {"template": pods("Never"), **more}}


def cronjob(**more: Any) -> Obj:
    return {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": job(), **more}}


def deployment(**more: Any) -> Obj:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pods(app="web"), **more}
    return {"metadata": {"name": "d"}, "spec": spec}


def shown(kind: str, obj: Obj, *, wide: bool = False) -> dict[str, Any]:
    table = tables.table(KINDS[kind], [obj], {}, include="None")
    pairs = zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
    return {column["name"]: cell for column, cell in pairs if wide or not column["priority"]}


def test_a_job_selects_its_pods_by_its_uid(tx: Transaction) -> None:
    made = VERBS.create(tx, target("Job"), job())
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    filled = {key: spec[key] for key in ("completions", "parallelism", "backoffLimit", "completionMode", "suspend")}
    assert filled == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
    }
    assert "serviceAccountName" not in spec["template"]["spec"]
    assert made["metadata"]["generation"] == 1


def test_a_job_with_parallelism_alone_ends_when_one_pod_succeeded(tx: Transaction) -> None:
    made = VERBS.create(tx, target("Job"), job(parallelism=3))
    assert "completions" not in made["spec"]
    assert shown("Job", made)["Completions"] == "0/1 of 3"


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (
            "Job",
            job(template=pods()),
            r'spec\.template\.spec\.restartPolicy: Required value: valid values: "OnFailure"',
        ),
        ("Job", job(template=pods("Maybe")), 'Unsupported value: "Maybe": supported values: "OnFailure", "Never"'),
        ("Job", job(backoffLimit=-1), r"spec\.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
        ("Job", {"metadata": {"name": "j"}}, "spec: Required value"),
        ("Job", job(template={"spec": {"containers": []}}), r"spec\.template\.spec\.containers: Required value"),
        ("Job", job(manualSelector=True), r"spec\.selector: Required value"),
        ("Deployment", deployment(template=pods(app="other")), "`selector` does not match template `labels`"),
        ("Deployment", deployment(selector={}), "empty selector is invalid for deployment"),
        ("Deployment", deployment(template=pods("Never", app="web")), 'supported values: "Always"'),
        ("Deployment", deployment(replicas=-2), r"spec\.replicas: Invalid value: -2"),
        ("Deployment", deployment(strategy={"type": "Hope"}), 'supported values: "Recreate", "RollingUpdate"'),
        ("ReplicaSet", deployment(template=pods(app="other")), "`selector` does not match template `labels`"),
        ("CronJob", {"metadata": {"name": "c"}, "spec": {"schedule": "", "jobTemplate": job()}}, "schedule: Required"),
        ("CronJob", cronjob(schedule="every day"), r"expected exactly 5 fields, found 2: \[every day\]"),
        ("CronJob", cronjob(schedule="61 * * * *"), r"end of range \(61\) above maximum \(59\): 61"),
        ("CronJob", cronjob(schedule="TZ=UTC * * * * *"), "use timeZone field instead"),
        ("CronJob", cronjob(timeZone="Mars"), "unknown time zone Mars"),
        (
            "CronJob",
            {"metadata": {"name": "c" * 53}, "spec": {"schedule": "* * * * *", "jobTemplate": job()}},
            "must be no more than 52 characters",
        ),
        (
            "CronJob",
            {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": job(template=pods())}},
            r"spec\.jobTemplate\.spec\.template\.spec\.restartPolicy: Required value",
        ),
        ("Pod", {"metadata": {"name": "p"}, "spec": {"containers": []}}, r"spec\.containers: Required value"),
    ],
)
def test_what_kubernetes_refuses_is_refused_in_its_words(tx: Transaction, kind: str, given: Obj, told: str) -> None:
    with pytest.raises(ApiError, match=told) as refused:
        VERBS.create(tx, target(kind), given)
    assert refused.value.code == 422


def test_the_template_of_a_job_and_the_selector_of_a_deployment_are_fixed(tx: Transaction) -> None:
    made = VERBS.create(tx, target("Job"), job())
    changed = copy.deepcopy(made)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example/two"
    with pytest.raises(ApiError, match=r"spec\.template: Invalid value: .*: field is immutable"):
        VERBS.update(tx, target("Job", "j"), lambda _: changed)
    calmer = {**made, "spec": {**made["spec"], "suspend": True}}
    assert VERBS.update(tx, target("Job", "j"), lambda _: calmer)["metadata"]["generation"] == 2
    VERBS.create(tx, target("Deployment"), deployment())
    other = deployment(selector={"matchLabels": {"app": "b"}}, template=pods(app="b"))
    with pytest.raises(ApiError, match=r"spec\.selector: Invalid value: .*: field is immutable"):
        VERBS.update(tx, target("Deployment", "d"), lambda _: other)


def test_an_apply_after_a_create_keeps_what_the_server_chose(tx: Transaction) -> None:
    wanted = {**job(), "apiVersion": "batch/v1", "kind": "Job"}
    made = VERBS.create(tx, target("Job"), wanted)
    # As kubectl does when it moves from client-side to server-side apply: what was created is taken for applied.
    for share in made["metadata"]["managedFields"]:
        share["operation"] = "Apply"
    VERBS.update(tx, target("Job", "j"), lambda _: made)
    applied, created = VERBS.apply(tx, target("Job", "j"), wanted, force=True)
    assert not created
    assert applied["spec"] == made["spec"]


def test_a_deployment_gets_its_defaults_and_is_shown(tx: Transaction) -> None:
    made = VERBS.create(tx, target("Deployment"), deployment())
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    made["status"] = {"readyReplicas": 1, "updatedReplicas": 1}
    assert {**shown("Deployment", made), "Age": ""} == {
        "Name": "d",
        "Ready": "1/1",
        "Up-to-date": 1,
        "Available": 0,
        "Age": "",
    }
    wide = shown("Deployment", made, wide=True)
    assert (wide["Containers"], wide["Images"], wide["Selector"]) == ("main", "example/one", "app=web")


def test_a_scale_is_read_and_written(tx: Transaction) -> None:
    VERBS.create(tx, target("Deployment"), deployment())
    scale = scale_of(VERBS.current(tx, target("Deployment", "d")))
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 1},
        {"replicas": 0, "selector": "app=web"},
    )
    wanted = {**scale, "spec": {"replicas": 3}}
    stored = VERBS.update(tx, target("Deployment", "d", "scale"), lambda old: scaled(old, wanted))
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (3, 2)
    assert stored["metadata"]["managedFields"][-1]["subresource"] == "scale"
    with pytest.raises(ApiError, match="has been modified"):
        VERBS.update(tx, target("Deployment", "d", "scale"), lambda old: scaled(old, wanted))


@pytest.mark.parametrize("replicas", [-1, 2**31, "3", True, None])
def test_a_scale_is_a_number_that_can_be(replicas: Any) -> None:
    with pytest.raises(ApiError, match="replicas"):
        scaled(deployment(), {"kind": "Scale", "spec": {"replicas": replicas}})
    with pytest.raises(ApiError, match="not a Scale"):
        scaled(deployment(), {"kind": "Pod", "spec": {"replicas": 1}})


def at(seconds: int) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("status", "state", "completions", "duration"),
    [
        ({}, "Running", "0/1", ""),
        ({"startTime": at(0), "completionTime": at(7), "succeeded": 1}, "Running", "1/1", "7s"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "Complete", "0/1", ""),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "Failed", "0/1", ""),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended", "0/1", ""),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, "Running", "0/1", ""),
    ],
)
def test_a_job_is_shown(status: Obj, state: str, completions: str, duration: str) -> None:
    row = shown("Job", {**job(completions=1), "status": status})
    assert list(row) == ["Name", "Status", "Completions", "Duration", "Age"]
    assert (row["Status"], row["Completions"], row["Duration"]) == (state, completions, duration)


def test_other_kinds_are_shown_with_kubernetes_columns() -> None:
    cron = {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": job()}}
    assert shown("CronJob", cron) == {
        "Name": "c",
        "Schedule": "* * * * *",
        "Timezone": "<none>",
        "Suspend": "False",
        "Active": 0,
        "Last Schedule": "<none>",
        "Age": "<unknown>",
    }
    assert list(shown("ReplicaSet", deployment())) == ["Name", "Desired", "Current", "Ready", "Age"]
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert shown("Lease", lease) == {"Name": "l", "Holder": "me", "Age": "<unknown>"}
    endpoints = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "ports": [{"port": 80}, {"name": "x"}],
        "endpoints": [{"addresses": [f"10.0.0.{number}"]} for number in range(5)],
    }
    row = shown("EndpointSlice", endpoints)
    assert (row["Ports"], row["Endpoints"]) == ("80,x", "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more...")
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": "x"}
    assert list(shown("Event", event)) == ["Last Seen", "Type", "Reason", "Object", "Message"]
    assert shown("Event", event, wide=True)["Name"] == "e"


def test_scale_is_told_as_the_kind_it_is() -> None:
    listed = discovery.resources(CORE_KINDS, "apps", "v1")
    assert listed is not None
    entry = next(one for one in listed["resources"] if one["name"] == "deployments/scale")
    assert (entry["group"], entry["version"], entry["kind"]) == ("autoscaling", "v1", "Scale")
    groups = discovery.aggregated(CORE_KINDS, core=False, version="v2")["items"]
    apps = next(group for group in groups if group["metadata"]["name"] == "apps")
    subresources = {
        one["subresource"]: one["responseKind"] for one in apps["versions"][0]["resources"][0]["subresources"]
    }
    assert subresources["scale"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert subresources["status"]["kind"] == "Deployment"


def test_every_new_kind_is_explained() -> None:
    for group, kind in (("apps", "Deployment"), ("batch", "CronJob"), ("coordination.k8s.io", "Lease")):
        document = openapi.document(CORE_KINDS, group, "v1")
        assert document is not None
        name = next(name for name in document["components"]["schemas"] if name.endswith(f".v1.{kind}"))
        assert document["components"]["schemas"][name]["properties"]["spec"]["description"]
