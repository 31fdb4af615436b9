"""The commands that people type, against the embedded server, with the real kubectl."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import yaml

from tests.integration.apiserver.api_process import Server
from tests.waiting import eventually

Kubectl = Callable[..., str]

BROKER = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: default
  labels: {app: demo}
"""
SET = (
    BROKER
    + """---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: first, labels: {app: demo}}
spec:
  broker: default
  subscriber: {uri: "http://127.0.0.1:1/"}
---
apiVersion: v1
kind: Pod
metadata: {generateName: sink-, labels: {app: demo}}
spec:
  containers: [{name: sink, image: example/sink, ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: sink, labels: {app: demo}}
spec:
  selector: {app: demo}
  ports: [{port: 80, targetPort: 8080, name: http}]
"""
)
READY = (
    '{"status":{"conditions":[{"type":"Ready","status":"True"}],"address":{"url":"http://127.0.0.1:8080/x/default"}}}'
)


def test_create_of_several_documents_with_generated_names(kubectl: Kubectl) -> None:
    told = kubectl("create", "-f", "-", stdin=SET)
    assert "broker.eventing.knative.dev/default created" in told
    assert "trigger.eventing.knative.dev/first created" in told
    names = kubectl("get", "triggers,pods", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert names[0] == "first"
    assert names[1].startswith("sink-")
    assert len(names[1]) == len("sink-") + 5


def test_delete_all_with_a_label(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=SET)
    kubectl("create", "-f", "-", stdin=BROKER.replace("default", "other").replace("demo", "kept"))
    told = kubectl("delete", "all", "-l", "app=demo")
    for part in (
        'broker.eventing.knative.dev "default"',
        'trigger.eventing.knative.dev "first"',
        'service "sink"',
        'pod "',
    ):
        assert part in told
    assert kubectl("get", "all", "-o", "name").split() == ["broker.eventing.knative.dev/other"]


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=BROKER)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=BROKER)
    changed = BROKER + "spec: {delivery: {retry: 3}}\n"
    assert "configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert kubectl("get", "broker", "default", "-o", "jsonpath={.spec.delivery.retry} {.metadata.generation}") == "3 2"


def test_apply_of_core_kinds_is_a_strategic_merge(kubectl: Kubectl) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(service))
    del service["spec"]["ports"][0]  # type: ignore[index]
    service["spec"]["ports"][0]["targetPort"] = 8081  # type: ignore[index]
    kubectl("apply", "-f", "-", stdin=json.dumps(service))
    ports = yaml.safe_load(kubectl("get", "service", "web", "-o", "yaml"))["spec"]["ports"]
    assert ports == [{"name": "b", "port": 81, "protocol": "TCP", "targetPort": 8081}]


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}}
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(config))
    theirs = {**config, "data": {"a": "2"}}
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=json.dumps(theirs), ok=False)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=json.dumps(theirs))
    assert json.loads(kubectl("get", "cm", "c", "-o", "jsonpath={.data}")) == {"a": "2", "b": "1"}
    # What a manager stops naming goes, unless somebody else owns it.
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({**config, "data": {}}))
    assert json.loads(kubectl("get", "cm", "c", "-o", "jsonpath={.data}")) == {"a": "2"}


def test_server_side_apply_of_a_broker_after_client_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=BROKER + "spec: {delivery: {retry: 3}}\n")
    told = kubectl("apply", "--server-side", "-f", "-", stdin=BROKER + "spec: {delivery: {retry: 4}}\n")
    assert "serverside-applied" in told
    assert kubectl("get", "broker", "default", "-o", "jsonpath={.spec.delivery.retry}") == "4"


def test_edit_by_patch(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=BROKER)
    kubectl("patch", "broker", "default", "--type=merge", "-p", '{"spec":{"delivery":{"retry":7}}}')
    kubectl("patch", "broker", "default", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/x","value":"y"}]')
    kubectl("label", "broker", "default", "app-")
    kubectl("annotate", "broker", "default", "note=here")
    found = yaml.safe_load(kubectl("get", "broker", "default", "-o", "yaml"))
    assert found["spec"]["delivery"]["retry"] == 7
    assert found["metadata"]["labels"] == {"x": "y"}
    assert found["metadata"]["annotations"]["note"] == "here"
    failed = kubectl(
        "patch", "broker", "default", "--type=json", "-p", '[{"op":"remove","path":"/spec/nothing"}]', ok=False
    )
    assert "the server rejected our request due to an error in our request" in failed


def test_edit_with_an_editor(server: Server, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-f", "-", stdin=BROKER + "spec: {delivery: {retry: 3}}\n")
    done = subprocess.run(
        ["kubectl", "-n", namespace, "edit", "broker", "default"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig), "KUBE_EDITOR": "sed -i 's/retry: 3/retry: 8/'"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert kubectl("get", "broker", "default", "-o", "jsonpath={.spec.delivery.retry}") == "8"


def test_wait_for_a_condition(server: Server, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-f", "-", stdin=BROKER)
    waiting = subprocess.Popen(
        ["kubectl", "-n", namespace, "wait", "--for=condition=Ready", "broker/default", "--timeout=120s"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    kubectl("patch", "broker", "default", "--subresource=status", "--type=merge", "-p", READY)
    told, _ = waiting.communicate(timeout=130)
    assert "condition met" in told


def test_get_prints_the_columns_of_the_kind(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=SET)
    kubectl("patch", "broker", "default", "--subresource=status", "--type=merge", "-p", READY)
    head, row = kubectl("get", "brokers").splitlines()
    assert head.split() == ["NAME", "URL", "AGE", "READY", "REASON"]
    assert row.split()[:2] == ["default", "http://127.0.0.1:8080/x/default"]
    assert row.split()[3] == "True"
    head, row = kubectl("get", "brokers", "-o", "wide").splitlines()
    assert head.split()[-1] == "CLASS"
    assert row.split()[-1] == "Penstock"
    head, row = kubectl("get", "pods").splitlines()
    assert head.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[1:4] == ["0/1", "Pending", "0"]
    told = kubectl("get", "broker", "default", "-o", "custom-columns=N:.metadata.name,U:.status.address.url")
    assert told.splitlines()[1].split() == ["default", "http://127.0.0.1:8080/x/default"]


def test_get_watches(server: Server, kubectl: Kubectl, namespace: str) -> None:
    watching = subprocess.Popen(
        ["kubectl", "-n", namespace, "get", "brokers", "-w"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        kubectl("create", "-f", "-", stdin=BROKER)
        assert watching.stdout.readline().split() == ["NAME", "URL", "AGE", "READY", "REASON"]
        assert watching.stdout.readline().split()[0] == "default"
        kubectl("patch", "broker", "default", "--subresource=status", "--type=merge", "-p", READY)
        assert "True" in watching.stdout.readline()
    finally:
        watching.terminate()
        watching.communicate(timeout=60)


def test_events_by_field_selector_as_they_come(server: Server, kubectl: Kubectl, namespace: str) -> None:
    def event(name: str, pod: str, reason: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace, "apiVersion": "v1"},
            "reason": reason,
            "message": f"seen by {pod}",
            "type": "Normal",
        }

    watching = subprocess.Popen(
        [
            *("kubectl", "-n", namespace, "get", "events", "-w"),
            *("--field-selector", "reason=CloudEventObserved,involvedObject.name=sink"),
            *("-o", "custom-columns=MESSAGE:.message", "--no-headers"),
        ],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        path = f"/api/v1/namespaces/{namespace}/events"
        for one in (event("a", "other", "CloudEventObserved"), event("b", "sink", "Started")):
            assert server.call("POST", path, one).status == 201
        assert server.call("POST", path, event("c", "sink", "CloudEventObserved")).status == 201
        assert watching.stdout.readline().strip() == "seen by sink"
    finally:
        watching.terminate()
        watching.communicate(timeout=60)
    assert "Started" in kubectl("get", "events")


def test_events_are_shown_as_on_a_cluster(server: Server, kubectl: Kubectl, namespace: str) -> None:
    event = {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "sink", "namespace": namespace},
        "reason": "Seen",
        "message": "an event",
        "type": "Normal",
        "eventTime": None,
    }
    assert server.call("POST", f"/api/v1/namespaces/{namespace}/events", event).status == 201
    header, row = kubectl("get", "events").splitlines()
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row.split()[1:] == ["Normal", "Seen", "pod/sink", "an", "event"]
    assert kubectl("get", "events", "-o", "wide").splitlines()[0].split()[-1] == "NAME"


def test_what_get_prints_can_be_applied(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=SET)
    everything = kubectl("get", "brokers,triggers,services", "-o", "yaml")
    assert yaml.safe_load(everything)["kind"] == "List"
    told = kubectl("apply", "-f", "-", stdin=everything)
    assert told.count(" configured") + told.count(" unchanged") == 3


def test_a_kind_that_is_not_served_is_told_as_on_a_cluster(kubectl: Kubectl) -> None:
    unknown = "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n"
    told = kubectl("apply", "-f", "-", stdin=unknown, ok=False)
    assert 'no matches for kind "Nothing" in version "example.com/v1"' in told
    assert "ensure CRDs are installed first" in told
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}}
    told = kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(stateful), ok=False)
    assert "StatefulSet is not supported by this server" in told


def test_apply_prunes_what_is_named_no_more(kubectl: Kubectl) -> None:
    first, second = (BROKER.replace("default", name) for name in ("one", "two"))
    kept = ("apply", "--prune", "-l", "app=demo", "--prune-allowlist=eventing.knative.dev/v1/Broker", "-f", "-")
    kubectl(*kept, stdin=f"{first}---{second}")
    assert "broker.eventing.knative.dev/two pruned" in kubectl(*kept, stdin=first)
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {app: demo}}\n"
    for name in ("a", "b"):
        told = kubectl("apply", "--prune", "-l", "app=demo", "-f", "-", stdin=config.replace("NAME", name))
    assert "configmap/a pruned" in told


def test_explain(kubectl: Kubectl) -> None:
    told = kubectl("explain", "broker.spec.delivery")
    assert "backoffPolicy" in told
    assert "deadLetterSink" in told
    told = kubectl("explain", "trigger.status.conditions")
    assert "lastTransitionTime" in told
    assert "-required-" in told
    assert "containerPort" in kubectl("explain", "pod.spec.containers.ports")


def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    told = kubectl("api-resources")
    for plural, short in (("brokers", ""), ("channels", "ch"), ("inmemorychannels", "imc"), ("subscriptions", "sub")):
        line = next(line for line in told.splitlines() if line.startswith(plural))
        assert short in line
    listed = kubectl("api-resources", "--categories=knative", "-o", "name").split()
    assert "triggers.eventing.knative.dev" in listed
    assert "eventing.knative.dev/v1" in kubectl("api-versions")
    assert "v1.32" in kubectl("version")


def test_describe_shows_the_object_and_its_events(server: Server, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-f", "-", stdin=BROKER)
    uid = kubectl("get", "broker", "default", "-o", "jsonpath={.metadata.uid}")
    event = {
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Broker", "name": "default", "namespace": namespace, "uid": uid},
        "reason": "Hiccup",
        "message": "something to read",
        "type": "Warning",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    assert server.call("POST", f"/api/v1/namespaces/{namespace}/events", event).status == 201
    told = kubectl("describe", "broker", "default")
    assert "API Version:  eventing.knative.dev/v1" in told
    assert "something to read" in told
    assert "QoS Class" in _described_pod(kubectl)


def _described_pod(kubectl: Kubectl) -> str:
    kubectl("run", "one", "--image=example/one")
    return kubectl("describe", "pod", "one")


def test_unknown_fields_are_refused_or_dropped_as_asked(kubectl: Kubectl) -> None:
    odd = BROKER + "spec: {surprise: 1}\n"
    assert 'unknown field "spec.surprise"' in kubectl("create", "-f", "-", stdin=odd, ok=False)
    warned = kubectl("create", "--validate=warn", "-f", "-", stdin=odd)
    assert 'Warning: unknown field "spec.surprise"' in warned
    assert kubectl("get", "broker", "default", "-o", "jsonpath={.spec.surprise}") == ""


def test_dry_run_stores_nothing(kubectl: Kubectl) -> None:
    assert "created (server dry run)" in kubectl("create", "--dry-run=server", "-f", "-", stdin=BROKER)
    assert "NotFound" in kubectl("get", "broker", "default", ok=False)


def test_imperative_commands_that_send_protobuf(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    kubectl("create", "service", "externalname", "out", "--external-name=localhost", "--tcp=9000")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=brokers")
    kubectl("create", "rolebinding", "reads", "--role=reader", f"--serviceaccount={namespace}:default")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].targetPort}") == "8080"
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}").startswith("10.96.")
    assert kubectl("get", "service", "out", "-o", "jsonpath={.spec.clusterIP}") == ""
    account = f"--as=system:serviceaccount:{namespace}:default"
    assert kubectl("auth", "can-i", "get", "brokers", account).strip() == "yes"
    assert kubectl("auth", "can-i", "delete", "brokers", account, ok=False).strip() == "no"
    assert "cannot list resource" in kubectl("get", "pods", account, ok=False)


def test_namespaces_come_with_an_account_and_go_with_their_contents(server: Server, kubectl: Kubectl) -> None:
    server.kubectl("create", "namespace", "passing")
    assert "default" in server.kubectl("-n", "passing", "get", "serviceaccount", "-o", "name")
    server.kubectl("-n", "passing", "create", "-f", "-", stdin=SET)
    server.kubectl("delete", "namespace", "passing")
    assert "NotFound" in server.kubectl("get", "namespace", "passing", ok=False)
    server.kubectl("create", "namespace", "passing")
    assert server.kubectl("-n", "passing", "get", "all,broker,trigger", "-o", "name") == ""


def test_a_file_is_deleted_whose_namespace_comes_before_what_is_in_it(server: Server) -> None:
    inside = [{**one, "metadata": {**one["metadata"], "namespace": "filed"}} for one in yaml.safe_load_all(SET)]
    inside[2]["metadata"]["name"] = "sink"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "filed"}}
    file = yaml.safe_dump_all([namespace, *inside])
    server.kubectl("create", "-f", "-", stdin=file)
    told = server.kubectl("delete", "-f", "-", stdin=file)
    assert "NotFound" not in told
    assert told.count(" deleted") == 5
    # kubectl waited for all of it, the namespace included.
    assert "NotFound" in server.kubectl("get", "namespace", "filed", ok=False)


def test_a_namespace_that_is_going_says_so_and_takes_nothing_new(server: Server) -> None:
    server.kubectl("create", "namespace", "going")
    server.kubectl("-n", "going", "create", "configmap", "kept")
    held = ("-n", "going", "patch", "configmap", "kept", "--type=merge", "-p")
    server.kubectl(*held, '{"metadata": {"finalizers": ["tests.example/hold"]}}')  # until it was looked at
    server.kubectl("delete", "namespace", "going", "--wait=false")
    assert "Terminating" in server.kubectl("get", "namespace", "going")
    assert "because it is being terminated" in server.kubectl("-n", "going", "create", "configmap", "late", ok=False)
    server.kubectl(*held, '{"metadata": {"finalizers": null}}')
    assert eventually(lambda: server.call("GET", "/api/v1/namespaces/going").status == 404)
    assert server.call("GET", "/api/v1/namespaces/going/configmaps/kept").status == 404


def test_logs_of_a_pod(server: Server, kubectl: Kubectl, namespace: str) -> None:
    kubectl("run", "talker", "--image=example/talker")
    folder = server.data_dir / "logs" / "pods" / namespace / "talker"
    folder.mkdir(parents=True)
    (folder / "talker.log").write_text("one\ntwo\nthree\n")
    assert kubectl("logs", "talker") == "one\ntwo\nthree\n"
    assert kubectl("logs", "talker", "--tail=2") == "two\nthree\n"
    following = subprocess.Popen(
        ["kubectl", "-n", namespace, "logs", "talker", "-f", "--tail=1"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "three\n"
    with (folder / "talker.log").open("a") as log:
        log.write("four\n")
    assert following.stdout.readline() == "four\n"
    ended = '{"status":{"phase":"Succeeded"}}'
    kubectl("patch", "pod", "talker", "--subresource=status", "--type=merge", "-p", ended)
    following.communicate(timeout=60)
    assert following.returncode == 0


def test_the_node_is_shown_and_left_alone(server: Server, kubectl: Kubectl) -> None:
    kubectl("run", "busy", "--image=example/busy", '--overrides={"spec":{"nodeName":"penstock"}}')
    header, row = server.kubectl("get", "nodes").splitlines()
    assert header.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    name, status, _, _, version = row.split()
    assert (name, status) == ("penstock", "Ready")
    assert version == server.call("GET", "/version").json()["gitVersion"]
    assert "127.0.0.1" in server.kubectl("get", "nodes", "-o", "wide")
    told = server.kubectl("describe", "node", "penstock")
    assert "StackRunning" in told
    assert "busy" in told.partition("Non-terminated Pods:")[2]
    assert "MethodNotAllowed" in server.kubectl("delete", "node", "penstock", ok=False)


def test_pods_on_a_node_are_given_time_to_end(kubectl: Kubectl) -> None:
    kubectl("run", "busy", "--image=example/busy", '--overrides={"spec":{"nodeName":"here"}}')
    kubectl("delete", "pod", "busy", "--wait=false")
    found = json.loads(kubectl("get", "pod", "busy", "-o", "json"))
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "Terminating" in kubectl("get", "pod", "busy")
    kubectl("delete", "pod", "busy", "--grace-period=0", "--force")
    assert eventually(lambda: "NotFound" in kubectl("get", "pod", "busy", "--ignore-not-found=false", ok=False))


def test_features_without_effect_are_told_by_name(server: Server) -> None:
    patch = (
        "-n",
        "knative-eventing",
        "patch",
        "configmap",
        "config-features",
        "--dry-run=server",
        "--type=merge",
        "-p",
    )
    told = server.kubectl(*patch, '{"data": {"kreference-group": "enabled"}}')
    assert 'Warning: feature "kreference-group" has no effect in penstock' in told
    told = server.kubectl(*patch, '{"data": {"default-authorization-mode": "open"}}')
    assert 'is "allow-same-namespace": "open" is not a mode' in told
    assert "Warning" not in server.kubectl(*patch, '{"data": {"authentication-oidc": "enabled"}}')
    assert "Warning" not in server.kubectl(*patch, '{"data": {"eventtype-auto-create": "enabled"}}')
