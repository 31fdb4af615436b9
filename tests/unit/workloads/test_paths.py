"""No Pod reads or writes outside its own folder, and none asks for objects of another namespace."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http import pod_logs
from penstock.resources.pod_rules import LONGEST_SUBDOMAIN
from penstock.runtime.files import LONGEST_NAME, LeadsOutside, path_below
from penstock.workloads.images import Actor, Images
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.pods.addresses import PodAddress
from penstock.workloads.pods.podlife import log_folder
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes import volumes
from penstock.workloads.processes import volumes as files
from penstock.workloads.processes.environment import ConfigError
from penstock.workloads.processes.node_context import NodeContext
from tests.examples import examples
from tests.unit.workloads.made_up_pods import MadeUpPods, Names

OUTSIDE = ("..", ".", "", "/etc", "../x", "a/b", "../../../../pki", "a\0b", "a" * 256, "\ud800")
NOTHING = cast(Any, None)


def pod(name: str = "v", **source: Any) -> dict[str, Any]:
    spec = {"containers": [], "volumes": [{"name": name, **(source or {"emptyDir": {}})}]}
    return {"metadata": {"namespace": "shop", "name": "p", "uid": "1", "annotations": {"k": "mine"}}, "spec": spec}


def mounting(name: str, sub_path: str = "") -> dict[str, Any]:
    return {"name": "main", "volumeMounts": [{"name": name, "mountPath": "/v", "subPath": sub_path}]}


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_is_below_its_folder_or_refused(tmp_path: Path, name: str) -> None:
    assert path_below(tmp_path, "a", "b") == tmp_path / "a" / "b"
    for names in ((name,), ("a", name), (name, "a")):
        with pytest.raises(LeadsOutside, match="of a file"):
            path_below(tmp_path, *names)


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "away").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    (folder / "here").symlink_to(folder)
    assert path_below(folder, "here", "x") == folder / "here" / "x"
    for names in (("away",), ("away", "x"), ("here", "away")):
        with pytest.raises(LeadsOutside, match="symbolic link"):
            path_below(folder, *names)
    (tmp_path / "elsewhere").symlink_to(folder)
    assert path_below(tmp_path / "elsewhere", "x"), "the folder itself may be behind a link"


@pytest.mark.parametrize("name", ["~/.ssh", "/elsewhere", "../../../../pki"])
async def test_a_volume_cannot_be_another_folder(tmp_path: Path, name: str) -> None:
    around = NodeContext(tmp_path / "data")
    if name.startswith("/"):
        name = f"{tmp_path}{name}"
    item = {"path": "authorized_keys", "fieldRef": {"fieldPath": "metadata.annotations['k']"}}
    sources: tuple[dict[str, Any], ...] = ({"downwardAPI": {"items": [item]}}, {"emptyDir": {}})
    for source in sources:
        with pytest.raises(ConfigError, match="must be relative"):
            await files.lay_out(pod(name, **source), mounting(name), NOTHING, around)
    with pytest.raises(ConfigError, match="must be relative"):
        await volumes.refresh_volume(
            pod(name), {}, {"name": name, "secret": {}}, around.folder_of(pod()) / "volumes", NOTHING
        )
    assert not files_below(tmp_path)


async def test_what_a_program_links_in_its_volume_is_not_followed(tmp_path: Path) -> None:
    around, outside = NodeContext(tmp_path / "data"), tmp_path / "outside"
    outside.mkdir()
    place = around.folder_of(pod()) / "volumes" / "v"
    place.mkdir(parents=True)
    (place / "away").symlink_to(outside)
    with pytest.raises(ConfigError, match="symbolic link"):
        await files.lay_out(pod(), mounting("v", "away"), NOTHING, around)
    with pytest.raises(ConfigError, match="symbolic link"):
        volumes.write_tree(place, {"away/file": b"x"})
    (place / ".file.new").symlink_to(outside / "file")
    volumes.write_tree(place, {"file": b"x"})
    assert (place / "file").read_bytes() == b"x"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("key", ["k" * LONGEST_SUBDOMAIN, "ü" * (LONGEST_NAME // 2)])
def test_the_longest_names_are_written(tmp_path: Path, key: str) -> None:
    volumes.write_tree(tmp_path, {key: b"x"})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(key, b"x")]


@pytest.mark.parametrize("name", ["../../../control", "/absolute", "a/b"])
async def test_a_container_has_no_log_of_another(tmp_path: Path, name: str) -> None:
    logs = tmp_path / "logs" / "pods" / "shop" / "p"
    logs.mkdir(parents=True)
    name = f"{tmp_path}{name}" if name.startswith("/") else name
    foreign = logs / f"{name}.log"
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("of another")
    around = NodeContext(tmp_path)
    node = Node(cast(PodApi, NOTHING), NOTHING, NOTHING, tmp_path, Images({}), around)
    spec = {"name": name, "image": "event_display"}
    with pytest.raises(ConfigError, match="must be relative"):
        await Preparation(pod(), node, logs, PodAddress("127.0.0.1")).run(spec, Actor("event_display"))
    assert foreign.read_text() == "of another"
    described = {**pod(), "spec": {"containers": [spec]}, "status": {"phase": "Running"}}
    for query in ({"container": name}, {}, {"previous": "true"}):
        with pytest.raises(ApiError, match="is not valid for pod p") as refused:
            pod_logs.respond(logs, described, query, lambda: described)
        assert refused.value.code == 400


def test_folders_of_pods_are_below_the_data_folder(tmp_path: Path) -> None:
    assert NodeContext(tmp_path).folder_of(pod()) == tmp_path / "pods" / "shop" / "p-1"
    assert log_folder(tmp_path, pod()) == tmp_path / "shop" / "p"
    for metadata in ({"namespace": "..", "name": "p"}, {"namespace": "shop", "name": "../../x"}):
        for folder in (NodeContext(tmp_path).folder_of, lambda one: log_folder(tmp_path, one)):
            with pytest.raises(LeadsOutside, match="of a file"):
                folder({"metadata": metadata})


ABSOLUTE = f"{tempfile.gettempdir()}/penstock-escaped"
TRICKY = st.one_of(
    st.sampled_from(
        ["", ".", "..", "../..", "v", "empty", "file", "link", ABSOLUTE, "../../bank/secrets/db", "a/../b"]
    ),
    st.lists(st.sampled_from(["..", ".", "", "v", "link", "file", "a"]), max_size=5).map("/".join),
    st.text(max_size=8),
)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[MadeUpPods]:
    made = MadeUpPods(tmp_path)
    yield made
    made.close()


def test_no_name_leads_a_pod_elsewhere(pods: MadeUpPods) -> None:
    @examples(4)
    @given(
        st.builds(
            Names,
            volume=TRICKY | st.just("v"),
            path=TRICKY,
            key=TRICKY,
            reference=TRICKY | st.just("db"),
            sub_path=TRICKY,
            container=TRICKY,
            account=TRICKY | st.just("default"),
            link=TRICKY,
            kind=st.integers(0, 7),
        )
    )
    def check(names: Names) -> None:
        pods.check(names)

    check()


def test_a_pod_reads_what_is_its_own(pods: MadeUpPods) -> None:
    pods.check(Names(kind=1))
    assert set(pods.asked) == {
        "/api/v1/namespaces/shop/secrets/db",
        "/api/v1/namespaces/shop/configmaps/db",
        "/api/v1/namespaces/shop/serviceaccounts/default",
        "/api/v1/namespaces/shop/serviceaccounts/default/token",
    }
