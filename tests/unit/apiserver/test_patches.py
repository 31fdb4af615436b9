"""Patches: the properties that make them trustworthy, and the cases of the standards."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpatch import make_patch

from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.verbs import patches

KEYS = st.text("abc/~", min_size=1, max_size=3)
SCALARS = st.booleans() | st.integers(-5, 5) | st.text("xyz", max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
PATCHES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(SCALARS, max_size=2),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))
POD = walker_of(next(kind for kind in CORE_KINDS if kind.kind == "Pod"))


def difference(old: Any, new: Any) -> Any:
    """The merge patch from one object to another."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    patch = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        if key not in old or old[key] != value or type(old[key]) is not type(value):
            patch[key] = difference(old.get(key), value)
    return patch


@given(OBJECTS, OBJECTS)
def test_the_difference_as_a_merge_patch_leads_to_the_other_object(old: Any, new: Any) -> None:
    assert patches.merge(old, difference(old, new)) == new


@given(OBJECTS, PATCHES)
def test_a_merge_patch_applied_twice_is_the_same_as_once_and_changes_no_argument(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = patches.merge(target, patch)
    assert patches.merge(once, patch) == once
    assert (target, patch) == before


@given(OBJECTS, OBJECTS)
def test_a_json_patch_leads_to_the_other_object(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    assert patches.json(old, make_patch(old, new).patch) == new
    assert old == before


@given(OBJECTS, PATCHES)
def test_without_merge_keys_a_strategic_patch_is_a_merge_patch(target: Any, patch: Any) -> None:
    assert patches.strategic(target, patch, POD) == patches.merge(target, patch)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # The examples of RFC 7396, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_the_standard(target: Any, patch: Any, result: Any) -> None:
    assert patches.merge(target, patch) == result


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": list(containers)}}


def test_items_with_a_merge_key_are_merged_added_and_deleted() -> None:
    target = pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    patch = {
        "spec": {
            "containers": [
                {"name": "a", "image": "2"},
                {"name": "c", "image": "3"},
                {"name": "b", "$patch": "delete"},
            ]
        }
    }
    result = patches.strategic(target, patch, POD)
    assert result["spec"]["containers"] == [{"name": "a", "image": "2"}, {"name": "c", "image": "3"}]


def test_directives_of_strategic_patches() -> None:
    target = pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    replaced = patches.strategic(target, {"spec": {"$patch": "replace", "nodeName": "n"}}, POD)
    assert replaced["spec"] == {"nodeName": "n"}
    listed = patches.strategic(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, POD)
    assert listed["metadata"]["finalizers"] == ["b"]
    added = patches.strategic(target, {"metadata": {"finalizers": ["c", "a"]}}, POD)
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    ordered = patches.strategic(target, {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}, POD)
    assert [one["name"] for one in ordered["spec"]["containers"]] == ["b", "a"]
    kept = patches.strategic({"spec": {"a": 1, "b": 2}}, {"spec": {"$retainKeys": ["a"]}}, POD)
    assert kept["spec"] == {"a": 1}


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "add", "path": "nothing"}],
        [{"op": "unheard", "path": "/a"}],
        [{"path": "/a"}],
        [5],
        "text",
        {"op": "add"},
        [{"op": "add", "path": "/a", "value": 1}] * 10_001,
    ],
)
def test_json_patches_that_do_not_apply_are_refused(patch: Any) -> None:
    with pytest.raises(ApiError) as refused:
        patches.json({"a": 1}, patch)
    assert refused.value.code in (400, 422)


def test_copies_that_double_the_object_are_stopped() -> None:
    target = {"a": {"x": "y" * 100}}
    patch = [{"op": "copy", "from": "/a", "path": f"/a/c{number}"} for number in range(40)]
    with pytest.raises(ApiError) as refused:
        patches.json(target, patch)
    assert refused.value.code == 413
    assert target == {"a": {"x": "y" * 100}}
