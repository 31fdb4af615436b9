"""Containers as processes: which program, with which words, environment and files, and what its probes mean."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.settings import Settings
from penstock.workloads.images import Actor, Images, Program, refusal
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.pods.addresses import PodAddress
from penstock.workloads.pods.node import trim_all
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes import probes, volumes
from penstock.workloads.processes import volumes as files
from penstock.workloads.processes.command import (
    Proxies,
    base_environment,
    check_variables,
    command_of,
    exit_code,
    first_port,
)
from penstock.workloads.processes.environment import ConfigError, environment, quantity, references
from penstock.workloads.processes.node_context import NodeContext
from penstock.workloads.processes.process import CannotStart, executable, last_words
from penstock.workloads.processes.volumes import Files

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}}]},
    "status": {"podIP": "127.66.1.1"},
}


def images(commands: dict[str, Any]) -> Images:
    return Images(Settings.model_validate({"images": commands}).images)


SHELL, SERVICE = Program("ubi", ()), Program("mine", ("python", "-m", "mine", "--at=$(POD_IP)"))


@pytest.mark.parametrize(
    ("reference", "pattern"),
    [
        ("docker.io/me/mine:1", "*/mine*"),
        ("mine@sha256:00", "mine"),
        ("mine:2", "mine"),
        ("localhost:5000/mine", "localhost:5000/mine"),
        ("other/eventshub", "*/eventshub"),
        ("other", None),
    ],
)
def test_the_first_pattern_that_fits_counts(reference: str, pattern: str | None) -> None:
    commands = {"*/mine*": ["a"], "mine": ["b"], "localhost:5000/mine": ["c"], "*/eventshub": ["d"], "*e": ["late"]}
    if pattern == "localhost:5000/mine":
        del commands["*/mine*"]
    found = images(commands).find(reference, "ns")
    assert (found.pattern if isinstance(found, Program) else found) == pattern


def test_a_setting_wins_over_a_built_in_image() -> None:
    assert images({}).find("x/event_display", "ns") == Actor("event_display")
    mine = Program("*/event_display", ("mine",))
    assert images({"*/event_display": ["mine"]}).find("x/event_display", "ns") == mine


def test_an_image_may_be_for_some_namespaces_only() -> None:
    known = images(
        {"mine": {"command": "its own", "namespaces": "shop,bank"}, "m*": ["other"]} | {"x": {"command": []}}
    )
    assert [getattr(known.find("mine:1", namespace), "pattern", None) for namespace in ("shop", "bank", "ns")] == [
        "mine",
        "mine",
        "m*",
    ]
    alone = images(
        {"mine": {"command": ["a"], "namespaces": ["shop"]}, "eventshub": {"command": [], "namespaces": "a"}}
    )
    assert (alone.find("mine", "ns"), alone.find("eventshub", "ns")) == (None, Actor("eventshub"))
    assert "none is named for mine in the namespace ns. " in refusal("mine", "ns")


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "NODE_OPTIONS"),
        *(
            "JAVA_TOOL_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "BASH_ENV",
            "ENV",
            "HOME",
            "PATH",
        ),
    ],
)
def test_variables_that_run_other_code_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f'"{name}" may not be set .* allow_env = ."{name}".'):
        check_variables(["GREETING", name], SERVICE)
    check_variables([name], Program("mine", ("python",), allowed_variables=(name,)))
    check_variables([name], SHELL)


def test_other_variables_are_a_pods_own() -> None:
    names = ["GREETING", "PYTHONUNBUFFERED", "POD_IP", "KUBECONFIG", "JAVA_HOME", "ENVIRONMENT", "PATHS", "TZ", "LANG"]
    passed = []
    for name in names:
        check_variables([name], SERVICE)
        passed.append(name)
    assert passed == names


async def test_variables_from_a_secret_are_refused_as_well(tmp_path: Path) -> None:
    class Api:
        async def entries(self, pod: Any, kind: str, name: str) -> dict[str, str]:
            return {"PRELOAD": "/v/evil.so"}

    nothing, spec = cast(Any, None), {"name": "c", "envFrom": [{"prefix": "LD_", "secretRef": {"name": "s"}}]}
    node = Node(cast(PodApi, Api()), nothing, nothing, tmp_path, images({}), NodeContext(tmp_path))
    with pytest.raises(ConfigError, match='"LD_PRELOAD" may not be set'):
        await Preparation(POD, node, tmp_path, PodAddress("127.0.0.1")).run(spec, SERVICE)


def test_commands_are_written_as_words_or_as_a_line() -> None:
    settings = Settings.model_validate({"images": {"a": ["x", "y z"], "b": "x 'y z'", "c": []}})
    assert {name: one.command for name, one in settings.images.items()} == {
        "a": ["x", "y z"],
        "b": ["x", "y z"],
        "c": [],
    }
    assert Settings.model_validate({"images": '{"a": ["x"]}'}).images["a"].command == ["x"]
    with pytest.raises(ValueError, match="command"):
        Settings.model_validate({"images": {"a": {"namespaces": ["shop"]}}})


def test_what_a_setting_names_is_what_runs() -> None:
    container = {"command": ["/ko-app/mine"], "args": ["--to", "$(SINK)", "$$(SINK)"]}
    env = {"POD_IP": "127.66.1.1", "SINK": "http://sink"}
    expected = ["python", "-m", "mine", "--at=127.66.1.1", "--to", "http://sink", "$(SINK)"]
    assert command_of(container, SERVICE, env) == expected
    assert command_of({"command": ["sh"], "args": ["-c", "true"]}, SHELL, {}) == ["sh", "-c", "true"]


def test_a_pod_without_a_command_has_to_be_told() -> None:
    with pytest.raises(ConfigError, match="no command specified"):
        command_of({"args": ["x"]}, SHELL, {})


def test_a_program_gets_little_of_our_own_environment() -> None:
    own = {"PATH": "/bin", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "x", "http_proxy": "http://corporate"}
    proxies = Proxies("http://127.0.0.1:9", "http://127.0.0.1:7", "pw")
    env = base_environment(POD, own, port=8080, proxies=proxies)
    assert env["http_proxy"] == env["HTTP_PROXY"] == "http://ns:pw@127.0.0.1:9"
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://ns:pw@127.0.0.1:7"
    assert (env["PATH"], env["POD_IP"], env["PORT"], env["HOSTNAME"]) == ("/bin", "127.66.1.1", "8080", "p")
    assert "AWS_SECRET_ACCESS_KEY" not in env


def test_environment_from_whole_objects_and_resources() -> None:
    resource = {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}
    container = {
        "name": "c",
        "envFrom": [{"configMapRef": {"name": "cm"}, "prefix": "P_"}, {"secretRef": {"name": "s", "optional": True}}],
        "env": [
            {"name": "P_A", "value": "mine"},
            {"name": "MEM", "valueFrom": resource},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
    }
    assert references(container) == [("configmap", "cm"), ("secret", "s")]
    env = environment(
        POD,
        container | POD["spec"]["containers"][0],
        {("configmap", "cm"): {"A": "1", "B": "2"}, ("secret", "s"): None},
    )
    assert env == {"P_A": "mine", "P_B": "2", "MEM": "64", "CPU": "1"}
    with pytest.raises(ConfigError, match='configmap "cm" not found'):
        environment(POD, container, {("configmap", "cm"): None, ("secret", "s"): None})


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("500m", 0.5), ("64Mi", 64 * 2**20), ("1e3", 1000), ("2k", 2000), ("1E", 10**18)]
)
def test_quantities(text: str, number: float) -> None:
    assert float(quantity(text)) == number


@pytest.mark.parametrize("text", ["much", "", "1 2", "1e999999", "1" * 70, "1e-999", "1Ki1", "-", "1\n1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a quantity"):
        quantity(text)


def test_variables_do_not_grow_without_end() -> None:
    doubled = [{"name": "A0", "value": "x" * 1000}]
    doubled += [{"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, 60)]
    with pytest.raises(ConfigError, match="more than 1048576 characters"):
        environment(POD, {"name": "c", "env": doubled}, {})
    assert len(environment(POD, {"name": "c", "env": doubled[:7]}, {})["A6"]) == 64_000
    wide = [doubled[0], *({"name": f"B{n}", "value": "$(A0)" * 100} for n in range(100))]
    with pytest.raises(ConfigError, match="more than 8388608 characters"):
        environment(POD, {"name": "c", "env": wide}, {})
    with pytest.raises(ConfigError, match="more than 1048576 characters"):
        command_of({"args": ["$(A)" * 2000]}, SERVICE, {"A": "x" * 1000})


def test_a_built_in_program_is_asked_by_no_command(tmp_path: Path) -> None:
    """Such as a probe names: it would be a program of the Pod's choice."""
    nothing = cast(Any, None)
    node = Node(nothing, nothing, nothing, tmp_path, Images({}), NodeContext(tmp_path))
    probe = probes.Probe("liveness", {"exec": {"command": ["touch", str(tmp_path / "ran")]}})
    ask = Preparation(POD, node, tmp_path, PodAddress("127.0.0.1")).check({"name": "c"}, Actor("eventshub"), probe)
    assert asyncio.run(ask()) == "built-in programs do not support exec probes"  # type: ignore[arg-type]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("returned", "code"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_codes(returned: int, code: int) -> None:
    assert exit_code(returned) == code


def test_the_first_port_is_that_of_the_program() -> None:
    assert first_port({"ports": [{"containerPort": 9000}, {"containerPort": 9001}]}, 8080) == 9000
    assert first_port({}, 8080) == 8080


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "plain").touch(0o600)
    for name, reason in (("nosuch", "not found in"), ("./nosuch", "no such file"), ("./plain", "permission denied")):
        with pytest.raises(CannotStart, match=reason):
            executable(name, {"PATH": str(tmp_path)}, tmp_path)


def test_probes_have_kubernetes_defaults() -> None:
    container = {
        "readinessProbe": {"httpGet": {"port": "web"}},
        "livenessProbe": {},
        "ports": [{"name": "web", "containerPort": 9000}],
    }
    found = probes.read_probes(container)
    assert set(found) == {"readiness"}
    probe = found["readiness"]
    assert (probe.period, probe.timeout, probe.failure_threshold) == (10, 1, 3)
    assert probes.port_number(container, "web") == 9000
    with pytest.raises(ConfigError, match="couldn't find port"):
        probes.port_number(container, "other")


def test_a_container_is_asked_often_until_it_is_ready_for_the_first_time() -> None:
    probe = probes.Probe("readiness", {}, period=10)
    assert (probe.pause(eager=True), probe.pause(eager=False)) == (probes.EAGER_SECONDS, 10)


def test_answers_count_in_a_row() -> None:
    count = probes.Count(probes.Probe("readiness", {}, success_threshold=2, failure_threshold=3), False)
    assert [count.take(answer) for answer in (True, False, True, True)] == [False, False, False, True]
    count.held = True
    assert [count.take(answer) for answer in (False, False, True, False, False, False)] == [True] * 5 + [False]


def test_paths_are_replaced_where_a_program_cannot_have_its_own() -> None:
    files = Files(moved=((Path("/data/conf"), "/etc/conf"), (Path("/data/deep"), "/etc/conf/deep")))
    assert files.replaced("--config=/etc/conf/app.yaml") == "--config=/data/conf/app.yaml"
    assert files.replaced("/etc/conf/deep/x:/etc/conf") == "/data/deep/x:/data/conf"
    assert files.replaced("/etc/configuration /my/etc/conf") == "/etc/configuration /my/etc/conf"


def test_files_of_a_volume_stay_inside_it(tmp_path: Path) -> None:
    volumes.write_tree(tmp_path / "v", {"a/b": b"1"})
    assert (tmp_path / "v" / "a" / "b").read_bytes() == b"1"
    assert (tmp_path / "v" / "a" / "b").stat().st_mode & 0o077 == 0
    for path in ("../x", "/etc/x", ""):
        with pytest.raises(ConfigError, match="must be relative"):
            volumes.write_tree(tmp_path / "v", {path: b""})


def test_items_choose_the_entries_of_a_volume() -> None:
    found = {"a": b"1", "b": b"2"}
    assert volumes.chosen(found, {}, "x") == found
    assert volumes.chosen(found, {"items": [{"key": "a", "path": "sub/a"}]}, "x") == {"sub/a": b"1"}
    missing = {"items": [{"key": "c", "path": "c"}]}
    with pytest.raises(ConfigError, match="non-existent config key: c"):
        volumes.chosen(found, missing, "x")
    assert volumes.chosen(found, missing | {"optional": True}, "x") == {}


def test_a_log_that_grew_too_long_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "ns" / "p" / "c.log"
    log.parent.mkdir(parents=True)
    with log.open("a") as writer:
        writer.write("".join(f"line {number}\n" for number in range(1000)))
        writer.flush()
        trim_all(tmp_path, limit=1000, kept=100)
        writer.write("and on\n")
    lines = log.read_text().splitlines()
    assert lines[0].startswith("[the log was longer")
    assert lines[-2:] == ["line 999", "and on"]
    assert len(lines) < 20


def test_the_last_words_of_a_program_are_few(tmp_path: Path) -> None:
    log = tmp_path / "c.log"
    log.write_text("".join(f"{number}\n" for number in range(10_000)))
    words = last_words(log).splitlines()
    assert (len(words), words[-1]) == (80, "9999")
    log.write_text("x" * 5000)
    assert len(last_words(log)) == 2048


class SecretsAlone:
    """An API that has Secrets, some of the time."""

    def __init__(self, **secrets: dict[str, bytes]) -> None:
        self.secrets = secrets

    async def files(self, pod: Any, kind: str, name: str) -> dict[str, bytes] | None:
        return self.secrets.get(name)

    async def token(self, *_: Any) -> str:
        raise AssertionError("a token is made once")


MOUNTING: dict[str, Any] = {
    **POD,
    "spec": {
        **POD["spec"],
        "volumes": [
            {"name": "plain", "secret": {"secretName": "one"}},
            {
                "name": "mixed",
                "projected": {
                    "sources": [
                        {"secret": {"name": "two", "items": [{"key": "token", "path": "token"}]}},
                        {"serviceAccountToken": {"path": "own"}},
                    ]
                },
            },
            {"name": "empty", "emptyDir": {}},
            {"name": "elsewhere", "secret": {"secretName": "three"}},
        ],
    },
}


async def test_volumes_show_what_secrets_hold_by_now(tmp_path: Path) -> None:
    api, around = SecretsAlone(one={"a": b"1"}, two={"token": b"old"}), NodeContext(tmp_path)
    container = {"volumeMounts": [{"name": name} for name in ("plain", "mixed", "empty")]}
    folder = around.folder_of(MOUNTING) / "volumes"
    for name, content in (("plain", {"a": b"1"}), ("mixed", {"token": b"old", "own": b"mine"})):
        volumes.write_tree(folder / name, content)
    (folder / "elsewhere").mkdir()
    before = (folder / "plain" / "a").stat().st_ino
    api.secrets |= {"two": {"token": b"new", "other": b"x"}, "three": {"c": b"3"}}
    with (folder / "mixed" / "token").open("rb") as reading:
        await files.refresh(MOUNTING, container, cast(PodApi, api), around)
        assert reading.read() == b"old", "who reads a file meanwhile gets all of it"
    assert {path.name: path.read_bytes() for path in (folder / "mixed").iterdir()} == {"token": b"new", "own": b"mine"}
    assert (folder / "plain" / "a").stat().st_ino == before, "what has not changed is left alone"
    assert list((folder / "elsewhere").iterdir()) == [], "of a volume that the container does not mount"
    api.secrets.clear()
    with pytest.raises(ConfigError, match="one"):
        await files.refresh(MOUNTING, container, cast(PodApi, api), around)
    assert (folder / "plain" / "a").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("volume", "may_change"),
    [
        ({"name": "a", "configMap": {"name": "c"}}, True),
        ({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, False),
        ({"name": "a", "projected": {"sources": [{"configMap": {"name": "c"}}]}}, True),
        ({"name": "a", "emptyDir": {}}, False),
        ({"name": "a", "downwardAPI": {"items": []}}, False),
    ],
)
def test_what_may_change_while_a_program_runs(volume: dict[str, Any], may_change: bool) -> None:
    assert volumes.changes(volume) == may_change
