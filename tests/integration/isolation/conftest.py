"""One stack with two namespaces: `bank` has something of everything, users of `shop` try to reach it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.integration.isolation.shop_pods import Pods
from tests.integration.isolation.tenants import BANK, PRIVATE, SHOP, Caller, Listener, path_of
from tests.running import Stack, start_stack, stop_process
from tests.waiting import eventually

HERE = Path(__file__).parent
DEVELOPER = HERE.parents[2] / "examples" / "access" / "developer.yaml"
DENIED = "127.0.0.9"
"""An address of this machine that the settings allow to no event of `shop`."""
ROLES = {
    "sources": "knative-sources-namespaced-admin",
    "messaging": "knative-messaging-namespaced-admin",
    "eventing": "knative-eventing-namespaced-admin",
    "routing": "knative-eventing-namespaced-edit",
    "viewer": "view",
    "editor": "edit",
    "admin": "admin",
}
"""ServiceAccounts of `shop`, and the ClusterRole that each is bound to there. Beside them: `developer`, of the example,
`serving`, who may do
everything with Knative Services, and `shared`, who may read one Secret of `bank`."""
SERVING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: serving, namespace: shop}
rules: [{apiGroups: [serving.knative.dev], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: serving, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: serving}
subjects: [{kind: ServiceAccount, name: serving, namespace: shop}]
"""


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """A stack of its own: these tests change settings that hold for all namespaces. Other accounts of the machine reach
    its data folder, as they do where people have one, and what is in their way is the folder itself."""
    images = {"test/shell*": [], "test/fixed": ["python3", "-c", "print('as the settings say')"]}
    denied = {SHOP: {"deny": [f"{DENIED}/32"]}}
    flags = (f"images={json.dumps(images)}", f"deliver_namespaces={json.dumps(denied)}", "store_timeout_seconds=30")
    with tempfile.TemporaryDirectory(prefix="penstock-isolation-") as folder:
        Path(folder).chmod(0o755)
        running = start_stack(Path(folder) / "data", *(word for flag in flags for word in ("--set", flag)))
        yield running
        stop_process(running.process)


@pytest.fixture(scope="package")
def admin(stack: Stack) -> Iterator[Caller]:
    """The administrator."""
    caller = Caller(stack, yaml.safe_load(stack.kubeconfig.read_text())["users"][0]["user"]["token"])
    yield caller
    caller.close()


@pytest.fixture(scope="package")
def mine() -> Iterator[Listener]:
    """The listener of the users of `shop`."""
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(scope="package")
def bank(stack: Stack, admin: Caller) -> Iterator[Listener]:
    """What is in `bank`, with an event that has been delivered; the listener is the bank's own."""
    listener = Listener()
    stack.kubectl("create", "namespace", BANK)
    stack.kubectl("create", "namespace", SHOP)
    stack.apply((HERE / "bank.yaml").read_text().replace("LISTENER", listener.url))
    stack.kubectl("-n", BANK, "wait", "--for=condition=Ready", "trigger/ledger", "--timeout=170s", timeout=180)
    stack.penstock("send", json.dumps({"sum": PRIVATE}), "--broker", "payments", "--namespace", BANK)
    eventually(lambda: listener.at("/ledger"), 120)
    eventually(lambda: PRIVATE in stack.kubectl("-n", BANK, "logs", "teller", check=False), 120)
    yield listener
    listener.close()


@pytest.fixture(scope="package")
def users(stack: Stack, admin: Caller, bank: Listener) -> Iterator[Mapping[str, Caller]]:
    """The users of `shop`, by the names of their ServiceAccounts."""
    stack.kubectl("apply", "-f", str(DEVELOPER))
    stack.apply(SERVING)
    for name in (*ROLES, "serving", "shared"):
        admin.made({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    for name, role in ROLES.items():
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SHOP}],
        }
        admin.made(binding)
    callers = {name: Caller(stack, token_of(admin, name)) for name in (*ROLES, "developer", "serving", "shared")}
    yield callers
    for caller in callers.values():
        caller.close()


def token_of(admin: Caller, name: str) -> str:
    """A token of a ServiceAccount of `shop`."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = admin.call("POST", f"{path_of(account, SHOP, name)}/token", asked)
    assert answer.status == 201, answer
    return str(answer.object["status"]["token"])


@pytest.fixture(scope="package")
def denied() -> Iterator[Listener]:
    """A listener at the address that no event of `shop` may be sent to."""
    listener = Listener(DENIED)
    yield listener
    listener.close()


@pytest.fixture(scope="package")
def pods(stack: Stack, admin: Caller, users: Mapping[str, Caller]) -> Pods:
    """What becomes of Pods in `shop`."""
    return Pods(stack, admin)
