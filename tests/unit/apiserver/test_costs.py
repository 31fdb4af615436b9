"""What requests cost grows with their size, and not with its square: all writes wait for the one that is under way.

Calls of functions are counted, not seconds: four times the size may cost eight times the calls, and not sixteen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from penstock.apiserver.access.rules import MAX_PAIRS, TooManyParts, uncovered
from penstock.apiserver.cluster.aggregation import outdated
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import requests
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.verbs import fields, patches
from penstock.apiserver.verbs.apply import Manager, apply
from penstock.apiserver.verbs.fields import from_fields_v1, to_fields_v1
from tests.unit.apiserver.api_in_process import RBAC, ApiInProcess

POD = walker_of(next(kind for kind in CORE_KINDS if kind.kind == "Pod"))
MANAGER = Manager("m", "Apply", "v1")
SIZE = 50


def calls(action: Callable[[], object]) -> int:
    """How many functions the action calls, those of C included."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def pod(env: Iterable[dict[str, Any]] = (), finalizers: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": list(finalizers)},
        "spec": {"containers": [{"name": "c", "image": "i", "env": list(env)}]},
    }


def env(letter: str, size: int) -> list[dict[str, Any]]:
    return [{"name": f"{letter}{number}", "value": "v"} for number in range(size)]


def names(letter: str, size: int) -> list[str]:
    return [f"{letter}{number}.b/c" for number in range(size)]


def applied(wanted: dict[str, Any], live: dict[str, Any] | None = None) -> dict[str, Any]:
    return apply(live, wanted, MANAGER, POD, "2026-01-01T00:00:00Z", force=False)


def exchanged(size: int) -> Callable[[], object]:
    return partial(applied, pod(env("b", size)), applied(pod(env("a", size))))


def taken_away(size: int) -> Callable[[], object]:
    return partial(applied, pod(), applied(pod(env("a", size), names("f", size))))


def of_a_set(size: int) -> Callable[[], object]:
    return partial(applied, pod(finalizers=names("b", size)), applied(pod(finalizers=names("a", size))))


def nested(size: int) -> Callable[[], object]:
    paths = [(*(f"f:{depth}" for depth in range(10)), f"f:{number}") for number in range(size)]
    return lambda: from_fields_v1(to_fields_v1(paths))


def strategic(size: int) -> Callable[[], object]:
    return partial(patches.strategic, pod(env("a", size)), pod(env("b", size)), POD)


def strategic_set(size: int) -> Callable[[], object]:
    live, patch = pod(finalizers=names("a", size)), pod(finalizers=names("b", size))
    patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = names("c", size)
    return partial(patches.strategic, live, patch, POD)


def strategic_deletes(size: int) -> Callable[[], object]:
    gone = [{"name": one["name"], "$patch": "delete"} for one in env("a", size)]
    return partial(patches.strategic, pod(env("a", size)), pod(gone), POD)


def strategic_order(size: int) -> Callable[[], object]:
    patch = pod()
    patch["spec"]["containers"][0]["$setElementOrder/env"] = [{"name": one["name"]} for one in env("a", size)][::-1]
    return partial(patches.strategic, pod(env("a", size)), patch, POD)


def aggregated(size: int) -> Callable[[], object]:
    whole = {"metadata": {"name": "whole"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    rules = [{"apiGroups": [name], "resources": ["r"], "verbs": ["get"]} for name in names("g", size)]
    return lambda: outdated([whole, {"metadata": {"name": "part", "labels": {"a": "b"}}, "rules": rules}])


def product_of_four(size: int) -> Callable[[], object]:
    values = names("v", size)
    wanted = dict.fromkeys(("apiGroups", "resources", "resourceNames", "verbs"), values)
    held = [{"apiGroups": ["*"], "resources": ["pods", values[0]], "verbs": ["get", *values[:2]]}]
    return lambda: uncovered(held, [wanted])


def many_rules(size: int) -> Callable[[], object]:
    rules = [{"apiGroups": [name], "resources": ["r"], "verbs": ["get"]} for name in names("g", size)]
    return lambda: uncovered(rules, rules)


@pytest.mark.parametrize(
    "action",
    [
        exchanged,
        taken_away,
        of_a_set,
        nested,
        strategic,
        strategic_set,
        strategic_deletes,
        strategic_order,
        aggregated,
        product_of_four,
        many_rules,
    ],
)
def test_four_times_the_size_costs_no_more_than_eight_times_the_calls(
    action: Callable[[int], Callable[[], object]],
) -> None:
    small, large = action(SIZE), action(4 * SIZE)
    small()  # what is kept for the next time is made now
    assert calls(large) <= 8 * calls(small)


def test_rules_that_would_take_too_long_to_compare_are_not_compared() -> None:
    places = range(30)
    parts = ("apiGroups", "resources", "resourceNames", "verbs")
    # Each held rule lacks another value of each part, so that no two values are alike.
    held = [
        {
            part: [f"v{one}" for one in places if one != (place * factor) % 30]
            for part, factor in zip(parts, (1, 7, 11, 13), strict=True)
        }
        for place in places
    ]
    with pytest.raises(TooManyParts, match="combinations"):
        uncovered(held, [{part: [f"v{one}" for one in places] for part in parts}])
    rule = {"apiGroups": ["a"], "resources": ["b"], "verbs": ["c"]}
    with pytest.raises(TooManyParts, match="pairs"):
        uncovered([rule] * 10_000, [{**rule, "verbs": names("v", MAX_PAIRS // 10_000)}])


def test_paths_that_are_too_many_or_too_deep_take_no_memory() -> None:
    deep: dict[str, Any] = {f"f:{number}": {} for number in range(50_000)}
    for _ in range(500):
        deep = {"f:x": deep}
    with pytest.raises(ApiError, match=r"the paths to the fields .* more than 400000 steps") as refused:
        from_fields_v1(deep)
    assert (refused.value.code, refused.value.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("media", "body", "limit"),
    [
        ("application/json", b'{"a":[' + b"1," * 300_000 + b"1]}", 250_000),
        ("application/yaml", b"a: [" + b"b," * 150_000 + b"b]", 100_000),
        ("application/apply-patch+yaml", b"a:\n" + b"- b\n" * 150_000, 100_000),
    ],
)
def test_a_body_of_too_many_values_is_refused(media: str, body: bytes, limit: int) -> None:
    with pytest.raises(ApiError) as refused:
        requests.parse_document(body, media)
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "RequestEntityTooLarge",
        "message": f"Request entity too large: limit is {limit} values",
        "code": 413,
    }
    assert len(body) < requests.MAX_BODY_BYTES


@pytest.mark.asyncio(loop_scope="module")
async def test_limits_reach_the_client_as_statuses(api: ApiInProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MAX_STEPS", 100)
    configmaps = "/api/v1/namespaces/default/configmaps"
    data = {f"k{number}": "v" for number in range(60)}
    wide = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": data}
    media = "application/apply-patch+yaml"
    for answer in (
        await api.call("POST", configmaps, wide),
        await api.call("PATCH", f"{configmaps}/w?fieldManager=m", wide, media=media),
    ):
        assert (answer[0], answer[1]["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_role_of_billions_of_combinations_is_refused_in_few_words(api: ApiInProcess) -> None:
    rules = [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]
    bound = {"roleRef": {"kind": "ClusterRole", "name": "maker"}, "subjects": [{"kind": "User", "name": "max"}]}
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "maker"}, "rules": rules})
    await api.made(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "maker"}, **bound})
    values = [f"v{number:03}" for number in range(300)]
    rule = dict.fromkeys(("apiGroups", "resources", "resourceNames", "verbs"), values)
    made = {"metadata": {"name": "large"}, "rules": [rule]}
    status, refused = await api.call("POST", f"{RBAC}/namespaces/default/roles", made, user="max")
    assert (status, refused["reason"]) == (403, "Forbidden")
    first, *parts = refused["message"].split("\n")
    assert first.endswith("is attempting to grant RBAC permissions not currently held:")
    assert parts[0].startswith('{APIGroups:["v000"], Resources:["v000"], ResourceNames:["v000"], Verbs:["v000" "v001"')
    assert (len(parts), parts[-1]) == (51, "and more")
    assert max(map(len, parts)) <= 1001
