"""Pods of one namespace get no Secret, file, token or log of another one, and none of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.isolation.shop_pods import Pods, container, is_settled, pod, sender, shell, variables
from tests.integration.isolation.tenants import PRIVATE, SHOP, Answer, Caller, Listener, Obj, objects_in, path_of
from tests.running import Stack
from tests.waiting import eventually

CONTENT = "written-from-outside"
MARKER = "only-for-the-machine"
"""Part of every file of the machine that a Pod tries to read."""


def filled(name: str, path: str = "file") -> Obj:
    """A volume whose content its Pod chooses."""
    item = {"path": path, "fieldRef": {"fieldPath": "metadata.annotations['content']"}}
    return {"name": name, "downwardAPI": {"items": [item]}}


def template(volume: Obj, mount: Obj | None = None, **labels: str) -> Obj:
    """A Pod's template with a volume that is mounted."""
    mounted = {"name": volume["name"], "mountPath": "/volume", **(mount or {})}
    return {
        "metadata": {"annotations": {"content": CONTENT}, "labels": labels},
        "spec": {"volumes": [volume], "containers": [container("event_display", volumeMounts=[mounted])]},
    }


MAKERS: Mapping[str, tuple[str, Callable[[Obj], Obj]]] = {
    "Pod": ("editor", lambda made: {"apiVersion": "v1", "kind": "Pod", **made}),
    "Deployment": (
        "editor",
        lambda made: {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"selector": {"matchLabels": made["metadata"]["labels"]}, "template": made},
        },
    ),
    "Job": (
        "editor",
        lambda made: {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}},
        },
    ),
    "ContainerSource": (
        "sources",
        lambda made: {
            "apiVersion": "sources.knative.dev/v1",
            "kind": "ContainerSource",
            "spec": {"template": made, "sink": {"uri": "http://127.0.0.1:9/"}},
        },
    ),
    "Service": (
        "serving",
        lambda made: {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"template": made}},
    ),
}
"""How a Pod's template becomes one: by which user, and in which kind."""


@pytest.mark.parametrize("how", ["absolute", "relative"])
@pytest.mark.parametrize("kind", MAKERS)
def test_the_name_of_a_volume_leads_nowhere_else(
    stack: Stack, admin: Caller, users: Mapping[str, Caller], tmp_path: Path, kind: str, how: str
) -> None:
    outside = tmp_path / "outside"
    up = "../" * (len(stack.settings.data_dir.resolve().parts) + 8)
    name, (user, make) = f"volume-{kind.lower()}-{how}", MAKERS[kind]
    made = template(filled(str(outside) if how == "absolute" else up + str(outside).lstrip("/")), app=name)
    obj = make(made)
    obj["metadata"] = {**(obj.get("metadata") or {}), "name": name}
    answer = users[user].create(obj)
    # Where the template is taken, a Pod, or an Event that says why there is none, shows that it has been tried.
    if answer.status == 201:
        eventually(lambda: tried(admin, name), 180)
        admin.call("DELETE", path_of(obj, SHOP, name))
    else:
        assert answer.status in (400, 422), answer
        assert "a lowercase RFC 1123 label must consist of" in answer.body
    assert not outside.exists(), "the file is written"


def tried(admin: Caller, name: str) -> bool:
    """Whether a workload's Pod is as far as it gets, or cannot be made."""
    named = [one for (_, other), one in objects_in(admin, SHOP).items() if other.startswith(name)]
    found = [one for one in named if one["kind"] == "Pod"]
    if found:
        return all(is_settled(one) for one in found)
    events = admin.get(f"/api/v1/namespaces/{SHOP}/events")["items"]
    told = [event["message"] for event in events if event["involvedObject"]["name"].startswith(name)]
    return "a lowercase RFC 1123 label must consist of" in json.dumps([told, named])


PLACES: list[dict[str, str]] = [
    {"path": "../../../../outside"},
    {"path": "OUTSIDE"},
    {"subPath": "../../../../outside"},
    {"subPath": "OUTSIDE"},
    {"mountPath": "/volume/../../../../../../../../../../../../OUTSIDE"},
    {"mountPath": "OUTSIDE"},
]


@pytest.mark.parametrize(
    "given", PLACES, ids=lambda place: " ".join(f"{field}={path}" for field, path in place.items())
)
def test_no_path_in_a_volume_leads_nowhere_else(
    pods: Pods, users: Mapping[str, Caller], tmp_path: Path, given: dict[str, str]
) -> None:
    place = {field: path.replace("OUTSIDE", str(tmp_path / "outside")) for field, path in given.items()}
    made = template(filled("plain", place.pop("path", "file")), place)
    made["spec"]["containers"][0] |= {"image": "test/shell", "command": ["true"]}
    name = f"path-{PLACES.index(given)}"
    pods.ran(users["editor"], pod(name, made["spec"], {"annotations": {"content": CONTENT}}))
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("key", ["..", ".", "../x", "a/../../x", "/x"])
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_key_is_no_path(users: Mapping[str, Caller], kind: str, key: str) -> None:
    field = "data" if kind == "ConfigMap" else "stringData"
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"generateName": "keys-"}, field: {key: "content"}}
    answer = users["editor"].create(obj)
    assert answer.status == 422, answer
    assert "a valid config key must consist of" in answer.body or "must not" in answer.body


@pytest.fixture(scope="module")
def kept(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that only the user who runs penstock can read, outside its data folder."""
    file = tmp_path_factory.mktemp("machine") / "kept.json"
    event = {"specversion": "1.0", "id": "1", "source": "/machine", "type": "kept", "data": {"key": MARKER}}
    file.touch(0o600)
    file.write_text(json.dumps(event))
    (file.parent / "kept.yaml").write_text(f"{MARKER}: [")
    (file.parent / "kept.log").write_text(MARKER)
    return file


FILES: list[dict[str, str]] = [
    {"ENABLE_OIDC_AUTH": "true", "EVENTSHUB_TOKEN": "KEPT"},
    {"ENABLE_OIDC_AUTH": "true", "EVENTSHUB_TOKEN": "/empty/../UP/KEPT"},
    {"ENABLE_OIDC_AUTH": "true", "EVENTSHUB_TOKEN": "/empty/../../../../../pki/tokens.json"},
    {"EVENT_GENERATORS": "forwarder", "FROM_FILES": "KEPT"},
    {"EVENT_GENERATORS": "forwarder", "FROM_FILES": "/empty/../UP/KEPT"},
    {"INPUT_YAML": "YAML"},
    {"INPUT_YAML": "/empty/../UP/YAML"},
]
"""Variables of the program that name files."""


@pytest.mark.parametrize("user", ["editor", "sources"])
@pytest.mark.parametrize("values", FILES, ids=lambda values: " ".join(values.values()))
def test_a_built_in_program_reads_no_file_but_its_own(
    stack: Stack,
    pods: Pods,
    users: Mapping[str, Caller],
    mine: Listener,
    kept: Path,
    user: str,
    values: dict[str, str],
) -> None:
    number = FILES.index(values)
    name, path = f"files-{user}-{number}", f"/files/{user}/{number}"
    up = "../" * (len(stack.settings.data_dir.resolve().parts) + 8)
    named = {"UP/": up, "KEPT": str(kept), "YAML": str(kept.with_suffix(".yaml"))}
    for word, meant in named.items():
        values = {variable: value.replace(word, meant) for variable, value in values.items()}
    spec = sender(mine.url + path, **values)
    spec["volumeMounts"] = [{"name": "empty", "mountPath": "/empty"}]
    podspec = {"volumes": [{"name": "empty", "emptyDir": {}}], "containers": [spec]}
    if user == "editor":
        assert not isinstance(pods.ran(users[user], pod(name, podspec)), Answer)
        log = pods.log(name)
    else:
        source = MAKERS["ContainerSource"][1]({"spec": podspec, "metadata": {"labels": {"app": name}}})
        users[user].made({**source, "metadata": {"name": name}})
        [made] = pods.ended(f"labelSelector=app%3D{name}")
        log = pods.log(made["metadata"]["name"])
        users[user].call("DELETE", path_of(source, SHOP, name))
    tokens = [one["token"] for one in json.loads((stack.settings.data_dir / "pki" / "tokens.json").read_text())]
    for text in (MARKER, *tokens):
        assert text not in log
        assert not [one for one in mine.at(path) if text in one]


REFERENCES: Mapping[str, Obj] = {
    "secretKeyRef": {"env": variables(INPUT_BODY={"secretKeyRef": {"name": "SECRETS/db", "key": "password"}})},
    "configMapKeyRef": {
        "env": variables(INPUT_BODY={"configMapKeyRef": {"name": "CONFIGMAPS/ledger", "key": "rates"}})
    },
    "envFrom Secret": {"envFrom": [{"secretRef": {"name": "SECRETS/db"}}]},
    "envFrom ConfigMap": {"envFrom": [{"configMapRef": {"name": "CONFIGMAPS/ledger"}}]},
}
VOLUMES: Mapping[str, Obj] = {
    "Secret": {"secret": {"secretName": "SECRETS/db"}},
    "ConfigMap": {"configMap": {"name": "CONFIGMAPS/ledger"}},
    "projected Secret": {"projected": {"sources": [{"secret": {"name": "SECRETS/db"}}]}},
    "projected ConfigMap": {"projected": {"sources": [{"configMap": {"name": "CONFIGMAPS/ledger"}}]}},
}
SPELLINGS = ("../../bank/{}", "..%2F..%2Fbank%2F{}", "x/../../../bank/{}", "../../../namespaces/bank/{}")


def spelled(what: Any, spelling: str) -> Any:
    """With the names of what is in `bank`."""
    text = json.dumps(what)
    for kind in ("SECRETS", "CONFIGMAPS"):
        for name in ("db", "ledger"):
            text = text.replace(f"{kind}/{name}", spelling.format(f"{kind.lower()}/{name}"))
    return json.loads(text)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_reference_leads_to_a_secret_of_another_namespace(
    pods: Pods, users: Mapping[str, Caller], spelling: str
) -> None:
    """Each in a container of one Pod, as none of them needs the others."""
    for name, reference in REFERENCES.items():
        own = f"reference-{name.lower().replace(' ', '-')}-{SPELLINGS.index(spelling)}"
        pods.ran(users["editor"], pod(own, {"containers": [shell("env", **spelled(reference, spelling))]}))
        assert PRIVATE not in pods.log(own), name
    for name, volume in VOLUMES.items():
        own = f"volume-{name.lower().replace(' ', '-')}-{SPELLINGS.index(spelling)}"
        mounted = shell("cat /volume/*", volumeMounts=[{"name": "other", "mountPath": "/volume"}])
        spec = {"volumes": [{"name": "other", **spelled(volume, spelling)}], "containers": [mounted]}
        pods.ran(users["editor"], pod(own, spec))
        assert PRIVATE not in pods.log(own), name


def test_a_secret_of_the_own_namespace_arrives(pods: Pods, users: Mapping[str, Caller]) -> None:
    """The counterpart: what the Pods above print is there where it may be."""
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "stringData": {"password": "shops"}}
    users["editor"].made(made)
    spec = shell("env", env=variables(PASSWORD={"secretKeyRef": {"name": "own", "key": "password"}}))
    pods.ran(users["editor"], pod("own-secret", {"containers": [spec]}))
    assert "PASSWORD=shops" in pods.log("own-secret")


@pytest.mark.parametrize("account", ["../../bank/serviceaccounts/teller", "..%2F..%2Fbank%2Fserviceaccounts%2Fteller"])
def test_a_pod_gets_no_token_of_an_account_of_another_namespace(
    stack: Stack, pods: Pods, users: Mapping[str, Caller], account: str
) -> None:
    name = f"account-{len(account)}"
    source = {"serviceAccountToken": {"path": "token", "audience": "bank"}}
    spec = {
        "serviceAccountName": account,
        "volumes": [{"name": "token", "projected": {"sources": [source]}}],
        "containers": [shell("cat /token/token", volumeMounts=[{"name": "token", "mountPath": "/token"}])],
    }
    pods.ran(users["editor"], pod(name, spec))
    assert "eyJ" not in pods.log(name)


NAMES = ["KEPT", "UP/KEPT", "../../../control", "../../../apiserver"]


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_container_leads_to_no_other_log(
    stack: Stack, pods: Pods, users: Mapping[str, Caller], kept: Path, kind: str, name: str
) -> None:
    up = "../" * (len(stack.settings.data_dir.resolve().parts) + 8)
    path = str(kept.with_suffix(""))
    container_name = name.replace("UP/KEPT", up + path.lstrip("/")).replace("KEPT", path)
    spec = {
        "containers": [container("example.com/none")],
        kind: [{"name": container_name, "image": "example.com/none"}],
    }
    obj = pod(f"container-{kind.lower()}-{NAMES.index(name)}", spec)
    answer = pods.ran(users["editor"], obj)
    log = users["editor"].call("GET", f"{path_of(obj, SHOP, obj['metadata']['name'])}/log?container={container_name}")
    assert MARKER not in log.body
    assert '"component":"' not in log.body
    assert isinstance(answer, Answer), "it is refused"
    assert "a lowercase RFC 1123 label must consist of" in answer.body


@pytest.mark.parametrize("field", ["env", "envFrom"])
def test_a_pod_brings_no_code_for_a_program_that_the_settings_name(
    pods: Pods, users: Mapping[str, Caller], tmp_path: Path, field: str
) -> None:
    name, proof = f"code-{field.lower()}", tmp_path / "ran"
    code = {"sitecustomize.py": f"open({str(proof)!r}, 'w').close()", "PYTHONPATH": "/code"}
    users["editor"].made({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": code})
    given = {"env": variables(PYTHONPATH="/code"), "envFrom": [{"configMapRef": {"name": name}}]}
    mounts = [{"name": "code", "mountPath": "/code"}]
    spec = {
        "volumes": [{"name": "code", "configMap": {"name": name}}],
        "containers": [container("test/fixed", volumeMounts=mounts, **{field: given[field]})],
    }
    pods.ran(users["editor"], pod(name, spec))
    assert not proof.exists()
