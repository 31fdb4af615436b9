"""The changing verbs on a database in memory: what is stored, refused, counted and collected."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.store.storage import Transaction
from penstock.apiserver.verbs.admission import AdmissionChain
from penstock.apiserver.verbs.deletion import DeleteOptions
from penstock.apiserver.verbs.writing import Verbs, WriteTarget

KINDS = {kind.kind: kind for kind in CORE_KINDS}
VERBS = Verbs(Registry(CORE_KINDS), AdmissionChain(), lambda: datetime(2026, 1, 1, tzinfo=UTC))


def target(kind: ServedKind, name: str = "", **more: Any) -> WriteTarget:
    return WriteTarget(kind, "ns" if kind.namespaced else "", name, "user", "tests", **more)


def transaction() -> Transaction:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(files("penstock.apiserver.store").joinpath("tables.sql").read_text())
    tx = Transaction(connection)
    VERBS.create(tx, target(KINDS["Namespace"]), {"metadata": {"name": "ns"}})
    return tx


@pytest.fixture
def tx() -> Iterator[Transaction]:
    tx = transaction()
    yield tx
    tx._connection.close()


def make(tx: Transaction, name: str, **metadata: Any) -> dict[str, Any]:
    return VERBS.create(tx, target(KINDS["ConfigMap"]), {"metadata": {"name": name, **metadata}})


def owner(obj: dict[str, Any], *, block: bool = False) -> dict[str, Any]:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    return {**found, "blockOwnerDeletion": block}


def names(tx: Transaction) -> set[str]:
    return {name for _, _, name in tx.keys_of_resource("configmaps")}


def empty(tx: Transaction, limit: int) -> int:
    """Empties `ns` in parts; how many those were."""
    parts = 0
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        after = VERBS.empty(tx, "ns", after, limit)
        parts += 1
    return parts


def test_a_new_object_gets_its_identity(tx: Transaction) -> None:
    made = make(tx, "c", uid="forged", generation=9, deletionTimestamp="2020-01-01T00:00:00Z")
    assert made["metadata"]["uid"] != "forged"
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert "deletionTimestamp" not in made["metadata"]
    with pytest.raises(ApiError, match="already exists"):
        make(tx, "c")


def test_generated_names_differ(tx: Transaction) -> None:
    made = [
        VERBS.create(tx, target(KINDS["ConfigMap"]), {"metadata": {"generateName": "c-"}})["metadata"]["name"]
        for _ in range(20)
    ]
    assert len(set(made)) == 20
    assert all(name.startswith("c-") and len(name) == 7 for name in made)


def test_events_may_have_any_name_that_a_path_can_hold(tx: Transaction) -> None:
    def event(name: str) -> str:
        involved = {"kind": "Pod", "namespace": "ns", "name": "sink"}
        made = VERBS.create(tx, target(KINDS["Event"]), {"metadata": {"name": name}, "involvedObject": involved})
        return str(made["metadata"]["name"])

    assert event("sink-ack-x.Received.1") == "sink-ack-x.Received.1"
    assert event("_any thing:At=all") == "_any thing:At=all"
    for name in ("a/b", "a%2Fb", "..", "a" * 254):
        with pytest.raises(ApiError) as refused:
            event(name)
        assert refused.value.code == 422


def test_null_means_absent_in_core_kinds(tx: Transaction) -> None:
    event = {
        "metadata": {"name": "e", "creationTimestamp": None},
        "eventTime": None,
        "firstTimestamp": None,
        "series": None,
        "involvedObject": {"kind": "Pod", "name": "p", "uid": None},
    }
    made = VERBS.create(tx, target(KINDS["Event"]), event)
    assert "eventTime" not in made
    assert made["involvedObject"] == {"kind": "Pod", "name": "p"}
    applied, _ = VERBS.apply(tx, target(KINDS["ConfigMap"], "c"), {"data": {"a": "1"}, "binaryData": None}, force=False)
    assert applied["data"] == {"a": "1"}


def test_null_in_a_list_of_a_core_kind_is_an_empty_item(tx: Transaction) -> None:
    rule = {"apiGroups": [None, "apps"], "resources": ["*"], "verbs": ["get"]}
    made = VERBS.create(tx, target(KINDS["Role"]), {"metadata": {"name": "r"}, "rules": [rule]})
    assert made["rules"] == [{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["get"]}]


def test_an_update_must_know_the_latest_version(tx: Transaction) -> None:
    made = make(tx, "c")
    VERBS.update(tx, target(KINDS["ConfigMap"], "c"), lambda old: {**old, "data": {"a": "1"}})
    with pytest.raises(ApiError, match="the object has been modified"):
        VERBS.update(tx, target(KINDS["ConfigMap"], "c"), lambda _: {**made, "data": {"a": "2"}})


def test_an_update_without_a_change_writes_nothing(tx: Transaction) -> None:
    make(tx, "c")
    version = tx.version
    VERBS.update(tx, target(KINDS["ConfigMap"], "c"), lambda old: old)
    assert tx.version == version


def test_finalizers_hold_an_object_and_the_last_one_lets_it_go(tx: Transaction) -> None:
    make(tx, "c", finalizers=["a/b"])
    left, gone = VERBS.delete(tx, target(KINDS["ConfigMap"], "c"), DeleteOptions())
    assert not gone
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    with pytest.raises(ApiError, match="no new finalizers"):
        VERBS.update(
            tx,
            target(KINDS["ConfigMap"], "c"),
            lambda old: {**old, "metadata": {**old["metadata"], "finalizers": ["x/y"]}},
        )
    VERBS.update(
        tx, target(KINDS["ConfigMap"], "c"), lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}}
    )
    assert names(tx) == set()


def test_an_object_whose_owners_do_not_exist_is_collected(tx: Transaction) -> None:
    one = make(tx, "one")
    make(tx, "orphan", ownerReferences=[{**owner(one), "uid": "never-was"}])
    make(tx, "kept", ownerReferences=[{**owner(one), "uid": "never-was"}, owner(one)])
    assert names(tx) == {"one", "kept"}
    VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions())
    assert names(tx) == set()


def test_one_remaining_owner_keeps_a_dependent(tx: Transaction) -> None:
    one, two = make(tx, "one"), make(tx, "two")
    make(tx, "child", ownerReferences=[owner(one), owner(two)])
    VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions())
    child = tx.get("configmaps", "ns", "child")
    assert child is not None
    assert [reference["name"] for reference in child["metadata"]["ownerReferences"]] == ["two"]


def test_what_is_made_for_an_owner_that_waits_for_its_dependents_goes_at_once(tx: Transaction) -> None:
    one, other = make(tx, "one"), make(tx, "other")
    make(tx, "held", ownerReferences=[owner(one, block=True)], finalizers=["a/b"])
    VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions("Foreground"))
    make(tx, "late", ownerReferences=[owner(one, block=True)])
    make(tx, "shared", ownerReferences=[owner(one, block=False), owner(other, block=False)])
    assert names(tx) == {"one", "other", "held", "shared"}
    VERBS.update(
        tx, target(KINDS["ConfigMap"], "held"), lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}}
    )
    assert names(tx) == {"other", "shared"}


def test_an_object_of_another_namespace_holds_up_nothing_and_is_collected_by_its_own_owners(tx: Transaction) -> None:
    VERBS.create(tx, target(KINDS["Namespace"]), {"metadata": {"name": "other"}})
    there = replace(target(KINDS["ConfigMap"]), namespace="other")

    def make_there(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        return VERBS.create(tx, there, {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}})

    def left() -> set[str]:
        return {name for _, namespace, name in tx.keys_of_resource("configmaps") if namespace == "other"}

    one = make(tx, "one")
    near = make_there("near")
    make_there("holding", owner(one, block=True), finalizers=["a/b"])
    make_there("shared", owner(one, block=True), owner(near))
    make_there("gone", owner(one))
    assert left() == {"near", "holding", "shared"}
    _, gone = VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions("Foreground"))
    assert gone
    assert left() == {"near", "holding", "shared"}
    VERBS.delete(tx, replace(there, name="near"), DeleteOptions())
    assert left() == {"holding"}


def test_an_owner_in_another_namespace_keeps_nothing(tx: Transaction) -> None:
    VERBS.create(tx, target(KINDS["Namespace"]), {"metadata": {"name": "other"}})
    elsewhere = VERBS.create(tx, replace(target(KINDS["ConfigMap"]), namespace="other"), {"metadata": {"name": "e"}})
    one = make(tx, "one")
    make(tx, "child", ownerReferences=[owner(one), owner(elsewhere)])
    VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions())
    assert names(tx) == {"e"}


def test_an_object_in_no_namespace_owns_everywhere_and_is_owned_by_none_that_is_in_one(tx: Transaction) -> None:
    one, node = make(tx, "one"), VERBS.create(tx, target(KINDS["Node"]), {"metadata": {"name": "n"}})
    kept = VERBS.create(tx, target(KINDS["Namespace"]), {"metadata": {"name": "kept", "ownerReferences": [owner(one)]}})
    make(tx, "child", ownerReferences=[{**owner(node), "kind": "Node"}])
    VERBS.delete(tx, target(KINDS["ConfigMap"], "one"), DeleteOptions())
    assert names(tx) == {"child"}
    VERBS.delete(tx, target(KINDS["Node"], "n"), DeleteOptions())
    assert names(tx) == set()
    assert tx.by_uid(kept["metadata"]["uid"]) is not None


@given(st.data())
def test_whatever_owns_whom_deleting_the_namespace_ends_empty(data: st.DataObject) -> None:
    tx = transaction()
    made: list[dict[str, Any]] = []
    for number in range(data.draw(st.integers(1, 8))):
        owners = data.draw(st.lists(st.sampled_from(made), max_size=2, unique_by=id)) if made else []
        references = [owner(one, block=data.draw(st.booleans())) for one in owners]
        made.append(make(tx, f"c{number}", ownerReferences=references))
    victim = data.draw(st.sampled_from(made))["metadata"]["name"]
    policy = data.draw(st.sampled_from(["Background", "Foreground", "Orphan"]))
    VERBS.delete(tx, target(KINDS["ConfigMap"], victim), DeleteOptions(policy))
    assert victim not in names(tx)
    # Nobody is left whose owners are all gone, and nobody waits.
    for _, _, name in tx.keys_of_resource("configmaps"):
        found = tx.get("configmaps", "ns", name)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
        references = found["metadata"].get("ownerReferences") or []
        assert not references or any(tx.by_uid(reference["uid"]) for reference in references)
    VERBS.delete(tx, target(KINDS["Namespace"], "ns"), DeleteOptions())
    empty(tx, limit=data.draw(st.integers(1, 9)))
    assert tx.namespace_empty("ns")
    assert tx.get("namespaces", "", "ns") is None
    tx._connection.close()


def test_a_deleted_namespace_keeps_its_contents_and_takes_no_more(tx: Transaction) -> None:
    make(tx, "c")
    left, gone = VERBS.delete(tx, target(KINDS["Namespace"], "ns"), DeleteOptions())
    assert (gone, left["status"]["phase"]) == (False, "Terminating")
    assert names(tx) == {"c"}
    with pytest.raises(ApiError) as refused:
        make(tx, "late")
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert refused.value.message == (
        'configmaps "late" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


def test_a_namespace_is_emptied_in_parts(tx: Transaction) -> None:
    for number in range(10):
        make(tx, f"c{number}")
    VERBS.delete(tx, target(KINDS["Namespace"], "ns"), DeleteOptions())
    before = len(tx.changes)
    after = VERBS.empty(tx, "ns", ("", ""), 4)
    assert after == ("configmaps", "c3")
    assert [change.name for change in tx.changes[before:]] == ["c0", "c1", "c2", "c3"]
    assert empty(tx, limit=4) == 2
    assert tx.get("namespaces", "", "ns") is None
    assert tx.changes[-1].resource == "namespaces"


def test_what_a_finalizer_holds_holds_the_namespace(tx: Transaction) -> None:
    make(tx, "c", finalizers=["a/b"])
    VERBS.delete(tx, target(KINDS["Namespace"], "ns"), DeleteOptions())
    empty(tx, limit=500)
    assert names(tx) == {"c"}
    VERBS.update(
        tx, target(KINDS["ConfigMap"], "c"), lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}}
    )
    assert tx.get("namespaces", "", "ns") is None


def test_a_namespace_without_contents_is_gone_at_once(tx: Transaction) -> None:
    _, gone = VERBS.delete(tx, target(KINDS["Namespace"], "ns"), DeleteOptions())
    assert gone
    assert tx.namespace_empty("ns")


def test_a_namespace_that_is_not_going_is_not_emptied(tx: Transaction) -> None:
    make(tx, "c")
    assert VERBS.empty(tx, "ns", ("", ""), 500) is None
    assert names(tx) == {"c"}


def test_the_default_account_comes_back(tx: Transaction) -> None:
    VERBS.delete(tx, target(KINDS["ServiceAccount"], "default"), DeleteOptions())
    assert tx.get("serviceaccounts", "ns", "default") is not None


def test_a_pod_on_a_node_waits_for_it(tx: Transaction) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    VERBS.create(tx, target(KINDS["Pod"]), pod)
    left, gone = VERBS.delete(tx, target(KINDS["Pod"], "p"), DeleteOptions())
    assert (gone, left["metadata"]["deletionGracePeriodSeconds"]) == (False, 30)
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    sooner, gone = VERBS.delete(tx, target(KINDS["Pod"], "p"), DeleteOptions(grace_seconds=5))
    assert (gone, sooner["metadata"]["deletionGracePeriodSeconds"]) == (False, 5)
    _, gone = VERBS.delete(tx, target(KINDS["Pod"], "p"), DeleteOptions(grace_seconds=0))
    assert gone


def test_secrets_are_stored_encoded(tx: Transaction) -> None:
    made = VERBS.create(tx, target(KINDS["Secret"]), {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_services_get_an_address_of_their_own(tx: Transaction) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        made = VERBS.create(tx, target(KINDS["Service"]), {"metadata": {"name": name}, "spec": spec})
        found: dict[str, Any] = made["spec"]
        return found

    one, two = service("one", ports=[{"port": 80}]), service("two", ports=[{"port": 80}])
    assert one["clusterIP"] != two["clusterIP"]
    assert one["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert service("headless", clusterIP="None")["clusterIP"] == "None"
    assert "clusterIP" not in service("out", type="ExternalName", externalName="localhost")


def test_unknown_fields_warn_or_refuse(tx: Transaction) -> None:
    odd = {"metadata": {"name": "c"}, "colour": "red"}
    with pytest.raises(ApiError, match='strict decoding error: unknown field "colour"'):
        VERBS.create(tx, target(KINDS["ConfigMap"], field_validation="Strict"), odd)
    warned = target(KINDS["ConfigMap"])
    assert "colour" not in VERBS.create(tx, warned, odd)
    assert warned.warnings == ['unknown field "colour"']


def test_an_object_cannot_grow_beyond_what_a_request_may_carry(tx: Transaction) -> None:
    make(tx, "c")

    def add(**data: str) -> None:
        VERBS.update(tx, target(KINDS["ConfigMap"], "c"), lambda old: {**old, "data": {**old.get("data", {}), **data}})

    add(k0="x" * 1_000_000)
    add(k1="x" * 1_000_000)
    with pytest.raises(ApiError) as refused:
        add(k2="x" * 1_000_000, more="x" * 500_000)
    assert refused.value.code == 413


def test_a_thousand_wrong_items_make_a_short_refusal(tx: Transaction) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": 5}] * 1000}}
    with pytest.raises(ApiError) as refused:
        VERBS.create(tx, target(KINDS["Pod"]), pod)
    assert refused.value.message.endswith("and 950 more]")
    assert len(refused.value.message) < 20_000
