"""Names in Pods and templates: refused when they are written, and no obstacle where they are stored already."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest

from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds import core_rules, workload_rules
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.store.storage import Transaction
from penstock.apiserver.verbs.admission import AdmissionChain
from penstock.apiserver.verbs.writing import Verbs, WriteTarget

Obj = dict[str, Any]
KINDS = {kind.kind: kind for kind in CORE_KINDS}
VERBS = Verbs(Registry(CORE_KINDS), AdmissionChain())
VOLUME = {
    "name": "~/.ssh",
    "downwardAPI": {"items": [{"path": "authorized_keys", "fieldRef": {"fieldPath": "metadata.name"}}]},
}
POD = {"containers": [{"name": "main", "image": "event_display"}], "volumes": [VOLUME]}
LABELS = {"app": "web"}


def template(policy: str) -> Obj:
    return {"metadata": {"labels": LABELS}, "spec": {**POD, "restartPolicy": policy}}


def obj(**spec: Any) -> Obj:
    return {"metadata": {"name": "x"}, "spec": spec}


WRONG: dict[str, tuple[Obj, str]] = {
    "Pod": (obj(**POD), "spec"),
    "Deployment": (obj(selector={"matchLabels": LABELS}, template=template("Always")), "spec.template.spec"),
    "ReplicaSet": (obj(selector={"matchLabels": LABELS}, template=template("Always")), "spec.template.spec"),
    "Job": (obj(template=template("Never")), "spec.template.spec"),
    "CronJob": (
        obj(schedule="* * * * *", jobTemplate={"spec": {"template": template("Never")}}),
        "spec.jobTemplate.spec.template.spec",
    ),
}


def target(kind: str, name: str = "", subresource: str = "") -> WriteTarget:
    return WriteTarget(KINDS[kind], "" if kind == "Namespace" else "ns", name, "user", "tests", subresource)


@pytest.fixture
def tx() -> Iterator[Transaction]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(files("penstock.apiserver.store").joinpath("tables.sql").read_text())
    tx = Transaction(connection)
    VERBS.create(tx, target("Namespace"), {"metadata": {"name": "ns"}})
    yield tx
    connection.close()


def stored_by_older_rules(tx: Transaction, kind: str, given: Obj) -> Obj:
    with pytest.MonkeyPatch.context() as older:
        for module in (core_rules, workload_rules):
            older.setattr(module, "pod_faults", lambda *_: [])
        older.setattr(core_rules, "data_faults", lambda *_: [])
        return VERBS.create(tx, target(kind), given)


def with_spec(change: Callable[[Obj], Obj]) -> Callable[[Obj], Obj]:
    return lambda old: {**old, "spec": change(old["spec"])}


@pytest.mark.parametrize("kind", WRONG)
def test_a_name_that_would_be_a_path_is_refused_wherever_a_pod_is_described(tx: Transaction, kind: str) -> None:
    given, path = WRONG[kind]
    with pytest.raises(ApiError) as refused:
        VERBS.create(tx, target(kind), given)
    assert refused.value.code == 422
    cause = (refused.value.details or {})["causes"][0]
    assert (cause["field"], cause["reason"]) == (f"{path}.volumes[0].name", "FieldValueInvalid")
    assert cause["message"].startswith('Invalid value: "~/.ssh": a lowercase RFC 1123 label must consist of')


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_stored_already_can_have_its_status_and_metadata_written(tx: Transaction, kind: str) -> None:
    given = {**WRONG[kind][0], "metadata": {"name": "x", "finalizers": ["example.com/f"]}}
    stored_by_older_rules(tx, kind, given)
    status = {"Pod": {"phase": "Failed"}, "ReplicaSet": {"replicas": 1}}.get(kind, {})
    VERBS.update(tx, target(kind, "x", "status"), lambda old: {**old, "status": status})
    changed = VERBS.update(
        tx,
        target(kind, "x"),
        lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}, "finalizers": []}},
    )
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert not changed["metadata"].get("finalizers")


def test_what_is_stored_already_can_be_changed_but_in_its_template(tx: Transaction) -> None:
    stored_by_older_rules(tx, "Deployment", WRONG["Deployment"][0])
    scaled = VERBS.update(tx, target("Deployment", "x"), with_spec(lambda spec: {**spec, "replicas": 0}))
    assert scaled["spec"]["replicas"] == 0

    def other_image(spec: Obj) -> Obj:
        pod = {**spec["template"]["spec"], "containers": [{"name": "main", "image": "other"}]}
        return {**spec, "template": {**spec["template"], "spec": pod}}

    with pytest.raises(ApiError, match=r"spec\.template\.spec\.volumes\[0\]\.name: Invalid value"):
        VERBS.update(tx, target("Deployment", "x"), with_spec(other_image))


def test_a_stored_pod_can_be_given_its_node_and_another_image(tx: Transaction) -> None:
    stored_by_older_rules(tx, "Pod", WRONG["Pod"][0])
    bound = VERBS.update(tx, target("Pod", "x"), with_spec(lambda spec: {**spec, "nodeName": "penstock"}))
    assert bound["spec"]["nodeName"] == "penstock"


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize("key", ["..", "../x", "a/b", "..data"])
def test_keys_become_files(tx: Transaction, kind: str, key: str) -> None:
    given = {"metadata": {"name": "x"}, "data": {key: "eA=="}}
    with pytest.raises(ApiError, match=r"data\[.*\]: Invalid value") as refused:
        VERBS.create(tx, target(kind), given)
    assert refused.value.code == 422
    stored_by_older_rules(tx, kind, given)
    labelled = VERBS.update(
        tx, target(kind, "x"), lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    )
    assert labelled["data"] == {key: "eA=="}


def test_keys_of_other_data_are_held_to_the_same(tx: Transaction) -> None:
    with pytest.raises(ApiError, match=r"binaryData\[\.\.\]: Invalid value: \"\.\.\": must not be '\.\.'"):
        VERBS.create(tx, target("ConfigMap"), {"metadata": {"name": "x"}, "binaryData": {"..": "eA=="}})
    with pytest.raises(ApiError, match=r"data\[\.\.\]: Invalid value: \"\.\.\": must not be '\.\.'"):
        VERBS.create(tx, target("Secret"), {"metadata": {"name": "x"}, "stringData": {"..": "x"}})
