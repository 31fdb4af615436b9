"""Server-side apply: who owns what, and what that allows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.verbs.apply import LAST_APPLIED, Manager, after_update, apply, shares_of
from penstock.apiserver.verbs.fields import from_fields_v1, leaves, shown, to_fields_v1

POD = walker_of(next(kind for kind in CORE_KINDS if kind.kind == "Pod"))
CONFIG = walker_of(next(kind for kind in CORE_KINDS if kind.kind == "ConfigMap"))
NOW = "2026-01-01T00:00:00Z"

PATHS = st.lists(
    st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "f:.", "f:c d"]), min_size=1, max_size=4
).map(tuple)
DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123"), max_size=4)


def manager(name: str, operation: str = "Apply") -> Manager:
    return Manager(name, operation, "v1")


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


@given(st.sets(PATHS, max_size=8))
def test_field_sets_survive_their_nested_form(paths: set[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(paths)) == paths


def test_items_of_keyed_lists_are_fields_of_their_own() -> None:
    pod = {
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["f"]},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
    }
    assert [shown(path) for path in sorted(leaves(pod, POD))] == [
        '.metadata.finalizers[="f"]',
        ".metadata.labels.a",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].name',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]',
        '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort',
    ]


@given(DATA, DATA)
def test_the_only_manager_gets_exactly_what_it_applies(first: dict[str, str], second: dict[str, str]) -> None:
    live = apply(None, config(**first), manager("m"), CONFIG, NOW, force=False)
    live = apply(live, config(**second), manager("m"), CONFIG, NOW, force=False)
    assert live.get("data", {}) == second


@given(DATA, DATA)
def test_two_managers_share_what_they_agree_on_and_conflict_on_the_rest(
    one: dict[str, str], two: dict[str, str]
) -> None:
    live = apply(None, config(**one), manager("one"), CONFIG, NOW, force=False)
    before = copy.deepcopy(live)
    disputed = sorted(key for key in one.keys() & two.keys() if one[key] != two[key])
    if disputed:
        with pytest.raises(ApiError) as refused:
            apply(live, config(**two), manager("two"), CONFIG, NOW, force=False)
        assert refused.value.code == 409
        causes = (refused.value.details or {})["causes"]
        assert [cause["field"] for cause in causes] == [f".data.{key}" for key in disputed]
    else:
        result = apply(live, config(**two), manager("two"), CONFIG, NOW, force=False)
        assert result.get("data", {}) == {**one, **two}
    assert live == before
    forced = apply(live, config(**two), manager("two"), CONFIG, NOW, force=True)
    assert forced.get("data", {}) == {**one, **two}
    gone = apply(forced, config(), manager("two"), CONFIG, NOW, force=False)
    assert gone.get("data", {}) == {key: value for key, value in one.items() if key not in disputed}


def test_an_update_takes_over_what_it_changes() -> None:
    live = apply(None, config(a="1", b="1"), manager("one"), CONFIG, NOW, force=False)
    changed = copy.deepcopy(live)
    changed["data"] = {"a": "2", "b": "1"}
    after_update(live, changed, manager("edit", "Update"), CONFIG, NOW)
    owners = {share.manager.name: {shown(path) for path in share.fields} for share in shares_of(changed)}
    assert owners == {"one": {".data.b"}, "edit": {".data.a"}}
    with pytest.raises(ApiError, match=r'conflict with "edit" using v1: \.data\.a'):
        apply(changed, config(a="1"), manager("one"), CONFIG, NOW, force=False)


def test_kubectl_takes_over_from_its_own_client_side_apply() -> None:
    live = config(a="1")
    live["metadata"]["annotations"] = {LAST_APPLIED: '{"data":{"a":"1"}}'}
    after_update(None, live, manager("kubectl-client-side-apply", "Update"), CONFIG, NOW)
    assert apply(live, config(a="2"), manager("kubectl"), CONFIG, NOW, force=False)["data"] == {"a": "2"}
    with pytest.raises(ApiError, match=r'conflict with "kubectl-client-side-apply" using v1: \.data\.a'):
        apply(live, config(a="2"), manager("somebody"), CONFIG, NOW, force=False)


def test_items_of_keyed_lists_go_when_nobody_names_them() -> None:
    def pod(*names: str) -> dict[str, Any]:
        return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": name} for name in names]}}

    live = apply(None, pod("a", "b"), manager("one"), POD, NOW, force=False)
    live = apply(live, pod("b", "c"), manager("two"), POD, NOW, force=False)
    assert [one["name"] for one in live["spec"]["containers"]] == ["a", "b", "c"]
    live = apply(live, pod("a"), manager("one"), POD, NOW, force=False)
    assert [one["name"] for one in live["spec"]["containers"]] == ["a", "b", "c"]
    live = apply(live, pod("c"), manager("two"), POD, NOW, force=False)
    assert [one["name"] for one in live["spec"]["containers"]] == ["a", "c"]


def test_the_live_object_stays_as_it_is_whatever_goes() -> None:
    first = {"metadata": {"name": "p"}, "spec": {"securityContext": {"runAsUser": 1}, "nodeName": "n"}}
    live = apply(None, first, manager("m"), POD, NOW, force=False)
    before = copy.deepcopy(live)
    result = apply(live, {"metadata": {"name": "p"}}, manager("m"), POD, NOW, force=False)
    assert "spec" not in result
    assert live == before
