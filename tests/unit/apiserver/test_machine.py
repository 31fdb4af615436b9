"""The Node that the server tells of."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.apiserver.cluster import node as machine
from penstock.apiserver.kinds import tables
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.schema import walker_of
from penstock.resources.metadata import NODE_NAME

NODES = next(kind for kind in CORE_KINDS if kind.plural == "nodes")


def test_the_node_is_the_one_that_pods_name_and_fits_its_schema() -> None:
    made = machine.node("127.0.0.1", "v1.32.0")
    assert made["metadata"]["name"] == NODE_NAME
    assert walker_of(NODES).prune(made) == []
    assert walker_of(NODES).check(made) == []


def test_a_start_renews_what_is_told_but_not_since_when_it_is_ready() -> None:
    old, new = machine.node("127.0.0.1", "v1.32.0"), machine.node("127.0.0.2", "v1.33.0")
    old["metadata"]["uid"] = "u"
    old["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    found = machine.refreshed(old, new)
    assert found["metadata"]["uid"] == "u"
    assert found["status"]["addresses"][0]["address"] == "127.0.0.2"
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.0"
    assert found["status"]["conditions"] == old["status"]["conditions"]


def test_the_row_of_a_node() -> None:
    made = machine.node("127.0.0.1", "v1.32.0")
    made["metadata"]["creationTimestamp"] = datetime.now(UTC).isoformat()
    made["metadata"]["labels"]["node-role.kubernetes.io/worker"] = ""
    cells = tables.table(NODES, [made], {}, include="None")["rows"][0]["cells"]
    assert (cells[:3], cells[4:7]) == (["penstock", "Ready", "worker"], ["v1.32.0", "127.0.0.1", "<none>"])
    made["status"]["conditions"][0]["status"] = "False"
    assert tables.table(NODES, [made], {}, include="None")["rows"][0]["cells"][1] == "NotReady"
    made["status"]["conditions"] = []
    assert tables.table(NODES, [made], {}, include="None")["rows"][0]["cells"][1] == "Unknown"
