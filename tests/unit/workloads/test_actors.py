"""Built-in programs: which files they open, where they may send to, and what else they may ask the node for."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.contract.names import Location, NothingThere, Target
from penstock.destinations import Destinations
from penstock.settings import Settings
from penstock.web.certificates import KeyPair
from penstock.web.tls_server import NoCertificate
from penstock.workloads.actors import event_files
from penstock.workloads.actors.node_line import Call, Reply
from penstock.workloads.actors.options import BrokenEnvironment, read_options
from penstock.workloads.actors.program import tls_from
from penstock.workloads.actors.sender import SendingActor
from penstock.workloads.actors.volume_files import MOST_BYTES, VolumeFiles
from penstock.workloads.images import Actor, Images
from penstock.workloads.kubernetes import PodApi
from penstock.workloads.pods.actor_process import ActorCalls, ActorProcess, ActorServices
from penstock.workloads.pods.addresses import PodAddress
from penstock.workloads.pods.preparation import Node, Preparation
from penstock.workloads.processes.node_context import NodeContext

POD: dict[str, Any] = {"metadata": {"name": "hub", "namespace": "shop", "uid": "u1"}, "spec": {"volumes": []}}
NOTHING = cast(Any, None)


class RememberingApi:
    """Records Events, and knows one token."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []

    async def record(self, pod: dict[str, Any], *, name: str, **_: Any) -> None:
        self.recorded.append((pod["metadata"]["namespace"], name))

    async def review(self, token: str, audience: str) -> dict[str, Any] | None:
        return {"username": "u"} if (token, audience) == ("t", "a") else None


def calls(
    api: RememberingApi | None = None, locate: Any = Location, certificate: Any = None, **settings: Any
) -> ActorCalls:
    destinations = Destinations(Settings(**settings))
    services = ActorServices(cast(PodApi, api), locate, destinations, lambda: "bundles", certificate, 1024)
    return ActorCalls(POD, services)


async def located(url: str, **settings: Any) -> Reply:
    return await calls(**settings).answer(Call(1, "locate", {"url": url}))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume of a Pod, in a data folder that has a secret."""
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "tokens.json").write_text('[{"token": "s3cret"}]')
    folder = tmp_path / "pods" / "shop" / "hub-u1" / "volumes" / "v"
    folder.mkdir(parents=True)
    return folder.resolve()


OUTSIDE = [
    "/x/../../../../../pki/tokens.json",
    "/x/../pki/tokens.json",
    "/x/link",
    "/x/folder/tokens.json",
    "/y/tokens.json",
    "{data}/pki/tokens.json",
    "pki/tokens.json",
    "/etc/passwd",
    "//x/own",
    "",
]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_file_outside_the_volumes_is_opened(volume: Path, tmp_path: Path, path: str) -> None:
    (volume / "own").write_text("own")
    (volume / "link").symlink_to(tmp_path / "pki" / "tokens.json")
    (volume / "folder").symlink_to(tmp_path / "pki")
    (volume.parent / "w").symlink_to(tmp_path / "pki")
    files = VolumeFiles([("/x", str(volume)), ("/y", str(volume.parent / "w"))])
    assert await files.read("/x/own") == b"own"
    with pytest.raises(PermissionError, match="volume"):
        await files.read(path.format(data=tmp_path))


async def test_the_innermost_mount_decides_even_where_all_is_mounted(volume: Path) -> None:
    for name in ("outer", "inner"):
        (volume / name).mkdir()
        (volume / name / "file").write_text(name)
    files = VolumeFiles([("/", str(volume / "outer")), ("/inner", str(volume / "inner"))])
    assert [await files.read(path) for path in ("/file", "/inner/file", "/inner/../file")] == [
        b"outer",
        b"inner",
        b"outer",
    ]
    with pytest.raises(FileNotFoundError):
        await files.read("/etc/passwd")


async def test_a_file_is_read_up_to_a_bound(volume: Path) -> None:
    with (volume / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(PermissionError, match="has more than"):
        await VolumeFiles([("/x", str(volume))]).read("/x/large")
    with pytest.raises(PermissionError, match="is not a file"):
        await VolumeFiles([("/x", str(volume))]).read("/x")


async def test_a_token_outside_the_volumes_is_not_sent(volume: Path) -> None:
    env = {"EVENT_GENERATORS": "sender", "SINK": "http://sink", "INPUT_BODY": "x", "DELAY": "0"}
    env |= {"ENABLE_OIDC_AUTH": "true", "EVENTSHUB_TOKEN": "/x/../../../../../pki/tokens.json"}
    wanted = read_options("eventshub", env).sender
    assert wanted is not None
    sender = SendingActor("hub", wanted, NOTHING, NOTHING, VolumeFiles([("/x", str(volume))]))
    with pytest.raises(BrokenEnvironment, match=r"could not read token from file: .* is not in a volume"):
        await sender.run()


async def test_events_and_certificates_outside_the_volumes_are_not_read(volume: Path, tmp_path: Path) -> None:
    files, path = VolumeFiles([("/x", str(volume))]), f"{tmp_path}/pki/tokens.json"
    (volume / "events.yaml").symlink_to(path)
    for source in (path, "/x/../../../../../pki", "/x", "/x/events.yaml"):
        with pytest.raises(BrokenEnvironment, match=r"INPUT_YAML: .* cannot be read: ") as told:
            await event_files.load([source], files, NOTHING)
        assert "s3cret" not in str(told.value)
    with pytest.raises(BrokenEnvironment, match=r"FROM_FILES: .* is not in a volume"):
        await event_files.read_json(path, files)
    with pytest.raises(BrokenEnvironment, match="is not in a volume"):
        tls_from(f"{tmp_path}/pki", files)


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://169.254.169.254/latest", "link-local"),
        ("http://127.0.0.9/", "127.0.0.9/32 is in deliver_deny"),
        ("https://127.0.0.9/", "127.0.0.9/32 is in deliver_deny"),
        ("http://[::ffff:127.0.0.9]/", "127.0.0.9/32 is in deliver_deny"),
        ("http://2852039166/", "invalid HTTP URL"),
        ("http://127.9/", "invalid HTTP URL"),
        ("https://0x7f.0x9/", "invalid HTTP URL"),
        ("http://127.0.0.9./", "invalid HTTP URL"),
        ("http://127.0.0.9\\@127.0.0.1/", "invalid HTTP URL"),
        ("http://%31%32%37.0.0.9/", "invalid HTTP URL"),
        ("http://127。0。0。9/", "invalid HTTP URL"),
        ("http://127.0.0.1 /", "invalid HTTP URL"),
        ("ftp://127.0.0.1/", "invalid HTTP URL"),
        ("http:///", "invalid HTTP URL"),
        ("http://[::1/", "Invalid IPv6 URL"),
    ],
)
async def test_where_nothing_may_be_sent(url: str, refused: str) -> None:
    reply = await located(url, deliver_deny="127.0.0.9/32")
    assert reply.result is None
    assert refused in str(reply.error)


async def test_the_lists_of_a_namespace_count() -> None:
    lists = {"shop": {"deny": ["127.0.0.9/32"]}, "bank": {"deny": ["127.0.0.1/32"]}}
    assert "deliver_namespaces.shop.deny" in str((await located("http://127.0.0.9/", deliver_namespaces=lists)).error)
    assert (await located("http://127.0.0.1/", deliver_namespaces=lists)).error is None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:8080/a?b=c", Target("http://127.0.0.1:8080/a?b=c", "127.0.0.1:8080")),
        ("http://u:p@127.0.0.1/", Target("http://u:p@127.0.0.1/", "127.0.0.1")),
        ("http://[::1]:81/", Target("http://[::1]:81/", "[::1]:81")),
        ("https://127.0.0.1/", Target("https://127.0.0.1/", "127.0.0.1")),
    ],
)
async def test_an_address_is_connected_to_as_it_is(url: str, target: Target) -> None:
    assert (await located(url)).result.targets == [target]


@pytest.mark.parametrize(
    ("url", "address", "target"),
    [
        ("http://sink", "http://127.66.1.1:8080", Target("http://127.66.1.1:8080", "sink")),
        (
            "https://sink.shop.svc:444/a",
            "https://127.66.1.1:8443/a",
            Target("https://sink.shop.svc:8443/a", "sink.shop.svc:444", ("sink.shop.svc", "127.66.1.1", 8443)),
        ),
    ],
)
async def test_a_service_is_reached_at_its_address_by_its_name(url: str, address: str, target: Target) -> None:
    reply = await calls(locate=lambda _: Location(address)).answer(Call(1, "locate", {"url": url}))
    assert (reply.result.targets, reply.result.trusted) == ([target], "bundles" if url.startswith("https") else "")


async def test_services_of_the_namespace_are_known_by_their_short_names() -> None:
    asked: list[str] = []

    def locate(url: str) -> Location:
        asked.append(url)
        raise NothingThere("it has no ready address behind it")

    reply = await calls(locate=locate).answer(Call(1, "locate", {"url": "http://sink"}))
    assert (asked, reply.error) == (["http://sink.shop.svc.cluster.local"], "it has no ready address behind it")


async def test_events_are_recorded_for_the_own_pod_and_tokens_reviewed() -> None:
    api = RememberingApi()
    node = calls(api)
    recorded = await node.answer(Call(1, "record", {"component": "c", "name": "n", "message": "m"}))
    assert (recorded, api.recorded) == (Reply(1), [("shop", "n")])
    assert (await node.answer(Call(2, "review", {"token": "t", "audience": "a"}))).result == {"username": "u"}
    assert await node.answer(Call(3, "review", {"token": "t", "audience": "other"})) == Reply(3)
    assert (await node.answer(Call(4, "secrets", {}))).error == "there is no call secrets"
    assert "message" in str((await node.answer(Call(5, "record", {"component": "c", "name": "n"}))).error)


@pytest.mark.parametrize("service", ["job-sink.knative-eventing", "*", "", "A"])
async def test_there_is_no_certificate_for_others(service: str) -> None:
    reply = await calls().answer(Call(1, "certificate", {"service": service}))
    assert reply.error == f'"{service}" is not the name of a Service'


async def test_a_certificate_is_for_a_service_of_the_namespace() -> None:
    asked: list[Any] = []

    def certificate(hosts: Any) -> Any:
        def make(now: datetime) -> KeyPair:
            if len(asked) > 1:
                raise NoCertificate("ca.key is gone")
            asked.append(hosts)
            return KeyPair(b"certificate", b"key")

        return make

    node, call = calls(certificate=certificate), Call(1, "certificate", {"service": "t-jsonata"})
    assert (await node.answer(call)).result.key == "key"
    assert (await node.answer(call)).error is None
    assert asked[0] == ("t-jsonata.shop.svc.cluster.local", "t-jsonata.shop.svc")
    assert (await node.answer(call)).error == "ca.key is gone"


async def test_the_environment_of_a_pod_is_not_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET", "s3cret")
    env = {"LD_PRELOAD": "/v/evil.so", "PYTHONPATH": "/v", "PYTHONSTARTUP": "/v/x.py", "EVENT_GENERATORS": "receiver"}
    spec = {"name": "main", "env": [{"name": name, "value": value} for name, value in env.items()]}
    services = ActorServices(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, 1024)
    node = Node(NOTHING, NOTHING, services, tmp_path, Images({}), NodeContext(tmp_path))
    run = await Preparation(POD, node, tmp_path, PodAddress("127.0.0.1")).run(spec, Actor("eventshub"))
    assert isinstance(run, ActorProcess)
    launch = run._process._launch
    assert not launch.env.keys() & (env.keys() | {"PENSTOCK_SECRET"})
    assert str(tmp_path) not in " ".join(
        (*launch.command, *(v for k, v in launch.env.items() if k != "POD_OF_PENSTOCK"))
    )
    assert run._start.env == env


async def test_what_cannot_be_looked_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: Any, **__: Any) -> Any:
        raise OSError("Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown, raising=False)
    assert (
        await located("http://nowhere.example/")
    ).error == "nowhere.example has no address: Name or service not known"


async def test_only_an_address_that_was_judged_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: Any, **__: Any) -> Any:
        return [(2, 1, 6, "", (address, 0)) for address in ("169.254.169.254", "192.0.2.1", "192.0.2.2")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found, raising=False)
    plain = (await located("http://u@sink.example:81/a")).result.targets
    assert plain == [Target(f"http://u@192.0.2.{n}:81/a", "sink.example:81") for n in (1, 2)]
    secure = (await located("https://sink.example/a")).result.targets
    led = [Target("https://sink.example/a", "sink.example", ("sink.example", f"192.0.2.{n}", 443)) for n in (1, 2)]
    assert secure == led
