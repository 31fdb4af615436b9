"""Whose log is meant, and when it may still grow."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.pod_logs import chosen_container, may_write, waiting_reason


def pod(*containers: str, inits: tuple[str, ...] = (), phase: str = "Running", **states: Any) -> dict[str, Any]:
    named = {"containers": [{"name": one} for one in containers], "initContainers": [{"name": one} for one in inits]}
    statuses = [{"name": name, "state": state} for name, state in states.items()]
    return {"metadata": {"name": "p"}, "spec": named, "status": {"phase": phase, "containerStatuses": statuses}}


def test_the_only_container_is_meant_unless_another_is_named() -> None:
    assert chosen_container(pod("a"), "") == "a"
    assert chosen_container(pod("a", "b"), "b") == "b"
    assert chosen_container(pod("a", inits=("i",)), "i") == "i"
    with pytest.raises(ApiError, match=r"a container name must be specified for pod p, choose one of: \[a b\]"):
        chosen_container(pod("a", "b"), "")
    with pytest.raises(ApiError, match="container c is not valid for pod p"):
        chosen_container(pod("a"), "c")


def test_a_container_that_waits_has_no_log_yet() -> None:
    assert waiting_reason(pod("a"), "a") == "ContainerCreating"
    assert waiting_reason(pod("a", a={"waiting": {"reason": "ImagePullBackOff"}}), "a") == "ImagePullBackOff"
    assert waiting_reason(pod("a", a={"running": {}}), "a") is None


def test_a_log_grows_until_its_container_has_ended() -> None:
    assert may_write(pod("a", a={"running": {}}), "a")
    assert may_write(pod("a", a={"waiting": {}}), "a")
    assert not may_write(pod("a", a={"terminated": {}}), "a")
    assert not may_write(pod("a", phase="Failed", a={"waiting": {}}), "a")
    assert not may_write(None, "a")
