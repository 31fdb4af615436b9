"""A kind whose versions differ: stored in one, written and read in any."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from penstock.apiserver.documents import decode, encode
from penstock.apiserver.http.rendering import Renderer
from penstock.apiserver.http.requests import Form
from penstock.apiserver.kinds import custom_kinds
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry, ServedKind
from penstock.apiserver.store.storage import Transaction
from penstock.apiserver.verbs.admission import AdmissionChain
from penstock.apiserver.verbs.deletion import DeleteOptions
from penstock.apiserver.verbs.writing import Verbs, WriteTarget
from penstock.resources.registry import CONVERSIONS, crds

REGISTRY = Registry(CORE_KINDS, CONVERSIONS)
for definition in crds():
    REGISTRY.define(definition["metadata"]["name"], custom_kinds.kinds_of(definition))
VERBS = Verbs(REGISTRY, AdmissionChain(), lambda: datetime(2026, 1, 1, tzinfo=UTC))


def kind(version: str) -> ServedKind:
    found = REGISTRY.find("eventing.knative.dev", version, "eventtypes")
    assert found is not None
    return found


def target(version: str, name: str = "", **more: Any) -> WriteTarget:
    return WriteTarget(kind(version), "ns", name, "user", "tests", **more)


def transaction() -> Transaction:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(files("penstock.apiserver.store").joinpath("tables.sql").read_text())
    tx = Transaction(connection)
    namespaces = next(one for one in CORE_KINDS if one.kind == "Namespace")
    VERBS.create(tx, WriteTarget(namespaces, "", "", "user", "tests"), {"metadata": {"name": "ns"}})
    return tx


def make(tx: Transaction, **metadata: Any) -> dict[str, Any]:
    spec = {"type": "t", "source": "/s"}
    return VERBS.create(tx, target("v1beta2"), {"metadata": {"name": "e", **metadata}, "spec": spec})


def stored(tx: Transaction) -> dict[str, Any]:
    found = tx.get("eventtypes.eventing.knative.dev", "ns", "e")
    assert found is not None
    return found


def test_an_object_is_answered_as_it_was_written_and_stored_in_the_newest_version() -> None:
    tx = transaction()
    made = make(tx)
    assert (made["apiVersion"], made["spec"]) == ("eventing.knative.dev/v1beta2", {"type": "t", "source": "/s"})
    assert stored(tx)["apiVersion"] == "eventing.knative.dev/v1beta3"
    assert {one["name"] for one in stored(tx)["spec"]["attributes"]} == {"type", "source", "specversion", "id"}


def test_it_is_read_in_every_version() -> None:
    tx = transaction()
    make(tx)
    body = encode(stored(tx))
    for version in ("v1beta1", "v1beta2"):
        assert decode(Renderer(kind(version)).one(body))["spec"] == {"type": "t", "source": "/s"}
        assert VERBS.current(tx, target(version, "e"))["spec"]["type"] == "t"
    assert decode(Renderer(kind("v1beta3")).one(body))["spec"] == stored(tx)["spec"]
    for version in ("v1beta2", "v1beta3"):
        [row] = decode(Renderer(kind(version), Form("Table")).one(body))["rows"]
        assert row["cells"][:3] == ["e", "t", "/s"]


def test_it_is_changed_in_any_version() -> None:
    tx = transaction()
    make(tx)

    def change(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "spec": {**old["spec"], "type": "other"}}

    changed = VERBS.update(tx, target("v1beta1", "e"), change)
    assert (changed["spec"]["type"], changed["metadata"]["generation"]) == ("other", 2)
    version = stored(tx)["metadata"]["resourceVersion"]
    same = VERBS.update(tx, target("v1beta1", "e"), lambda old: old)
    assert same["metadata"]["resourceVersion"] == version, "nothing changed, so nothing was written"
    told = VERBS.update(tx, target("v1beta3", "e", subresource="status"), lambda old: {**old, "status": {}})
    assert told["spec"]["attributes"]
    wanted = {"apiVersion": "eventing.knative.dev/v1beta2", "kind": "EventType", "spec": {"type": "applied"}}
    applied, created = VERBS.apply(tx, target("v1beta2", "e"), wanted, force=True)
    assert (applied["spec"]["type"], created) == ("applied", False)


def test_a_deletion_that_waits_keeps_the_stored_version() -> None:
    tx = transaction()
    make(tx, finalizers=["example.com/wait"])
    left, gone = VERBS.delete(tx, target("v1beta2", "e"), DeleteOptions())
    assert (gone, left["spec"]["type"]) == (False, "t")
    assert stored(tx)["apiVersion"] == "eventing.knative.dev/v1beta3"
    assert stored(tx)["spec"]["attributes"]


def test_a_version_that_differs_by_its_name_only_is_served_and_is_stored_as_the_newest() -> None:
    tx = transaction()
    older = REGISTRY.find("sources.knative.dev", "v1beta2", "pingsources")
    assert older is not None
    spec = {"schedule": "* * * * *", "sink": {"uri": "http://sink"}}
    ping = {"metadata": {"name": "p"}, "spec": spec}
    made = VERBS.create(tx, WriteTarget(older, "ns", "", "user", "tests"), ping)
    assert (made["apiVersion"], made["spec"]["schedule"]) == ("sources.knative.dev/v1beta2", "* * * * *")
    found = tx.get("pingsources.sources.knative.dev", "ns", "p")
    assert found is not None
    assert found["apiVersion"] == "sources.knative.dev/v1"
