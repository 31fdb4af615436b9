"""Pods that are programs of this machine: command, environment, files, probes, exit codes, init containers, logs."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import time
from pathlib import Path
from typing import Any

import psutil

from penstock.workloads.processes.node_context import can_mount
from penstock.workloads.processes.process import MARK
from tests.integration.workloads.pod_cluster import Cluster
from tests.waiting import eventually

SHELL = "test/shell:1"


def pod(name: str, *containers: dict[str, Any], restart: str = "Never", **spec: Any) -> dict[str, Any]:
    body = {"restartPolicy": restart, "containers": list(containers), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": body}


def shell(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": SHELL, "command": ["sh", "-c"], "args": [script], **more}


def phase(wanted: str) -> Any:
    return lambda pod: pod.get("status", {}).get("phase") == wanted


def state(pod: dict[str, Any], index: int = 0) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    found: dict[str, Any] = statuses[index]["state"] if statuses else {}
    return found


def restarts(pod: dict[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod.get("status", {}).get("containerStatuses") or ())


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True"


def test_a_program_has_its_environment_files_and_credentials(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "conf", "--from-literal=greeting=hello", "--from-literal=app.yaml=a: 1")
    cluster.kubectl("create", "secret", "generic", "key", "--from-literal=token=secret")
    mounts = [
        {"name": "conf", "mountPath": "/etc/penstock-test/conf"},
        {"name": "scratch", "mountPath": "/penstock-scratch"},
    ]
    script = (
        "cat /penstock-scratch/made; echo; cat /etc/penstock-test/conf/app.yaml; echo; "
        "echo $greeting $(WHO) $TOKEN; id -u; kubectl auth whoami -o jsonpath={.status.userInfo.username}; echo; "
        "head -c 9 /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; ls /etc/passwd"
    )
    env = [
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
    ]
    main = shell(script, env=env, envFrom=[{"configMapRef": {"name": "conf"}}], volumeMounts=mounts)
    init = shell("echo $(WHO) > /penstock-scratch/made", "first", env=env[:1], volumeMounts=mounts[1:])
    volumes = [{"name": "conf", "configMap": {"name": "conf"}}, {"name": "scratch", "emptyDir": {}}]
    cluster.create(pod("surrounded", main, initContainers=[init], volumes=volumes))
    ended = cluster.until("surrounded", phase("Succeeded"), 120)
    assert ended["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert cluster.kubectl("logs", "surrounded", "-c", "main").splitlines() == [
        "surrounded",
        "",
        "a: 1",
        "hello surrounded secret",
        str(os.getuid()),
        "system:serviceaccount:default:default",
        "default",
        "/etc/passwd",
    ]
    assert not os.path.exists("/penstock-scratch")
    assert not os.path.exists("/etc/penstock-test")


def test_a_service_is_ready_when_it_answers(cluster: Cluster) -> None:
    probe = {"httpGet": {"path": "/", "port": "web"}}
    web = {"name": "web", "image": "test/web:2", "ports": [{"name": "web", "containerPort": 8080}]}
    cluster.create(pod("web-program", web | {"readinessProbe": probe, "livenessProbe": probe}, restart="Always"))
    running = cluster.until("web-program", is_ready, 120)
    connection = http.client.HTTPConnection(running["status"]["podIP"], 8080, timeout=60)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    cluster.kubectl("delete", "pod", "web-program", "--now")


def test_exit_codes_logs_and_what_came_before(cluster: Cluster) -> None:
    cluster.create(pod("once", shell("echo out; echo err >&2; exit 3")))
    ended = cluster.until("once", phase("Failed"), 120)
    assert state(ended)["terminated"]["exitCode"] == 3
    assert sorted(cluster.kubectl("logs", "once").splitlines()) == ["err", "out"]
    cluster.create(pod("again", shell("echo run; exit 1"), restart="OnFailure"))
    cluster.until("again", lambda pod: restarts(pod) >= 1, 120)
    eventually(lambda: "run" in cluster.kubectl("logs", "again", "--previous", check=False), 60)
    cluster.kubectl("delete", "pod", "again", "--now")


def test_a_program_that_is_not_there_harms_nobody(cluster: Cluster) -> None:
    cluster.create(pod("missing", {"name": "main", "image": "test/nothing"}, restart="Always"))
    waiting = cluster.until("missing", lambda pod: "waiting" in state(pod) and "lastState" in str(pod), 120)
    assert state(waiting)["waiting"]["reason"] == "RunContainerError"
    assert "no-such-program" in state(waiting)["waiting"]["message"]
    assert 'images."test/nothing"' in state(waiting)["waiting"]["message"]
    cluster.create(pod("missing-once", {"name": "main", "image": "test/nothing"}))
    ended = cluster.until("missing-once", phase("Failed"), 120)
    assert state(ended)["terminated"]["reason"] == "StartError"
    cluster.kubectl("delete", "pod", "missing", "--now")


def test_a_program_is_told_to_end_and_then_ended_with_all_it_started(cluster: Cluster) -> None:
    script = "trap 'echo told; exit 0' TERM; sleep 1000 & echo $!; wait"
    cluster.create(pod("polite", shell(script), terminationGracePeriodSeconds=60))
    cluster.until("polite", is_ready, 120)
    child = int(eventually(lambda: cluster.kubectl("logs", "polite").strip(), 60))
    began = time.monotonic()
    cluster.kubectl("delete", "pod", "polite")
    assert time.monotonic() - began < 50
    eventually(lambda: not alive(child), 60)
    cluster.create(pod("stubborn", shell("trap '' TERM; echo deaf; while true; do sleep 1; done")))
    eventually(lambda: "deaf" in cluster.kubectl("logs", "stubborn", check=False), 60)
    cluster.kubectl("delete", "pod", "stubborn", "--grace-period=1")
    assert "NotFound" in cluster.kubectl("get", "pod", "stubborn", check=False)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_container_that_is_not_alive_is_started_again(cluster: Cluster) -> None:
    failing = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    cluster.create(pod("sick", shell("exec sleep 1000", livenessProbe=failing), restart="Always"))
    cluster.until("sick", lambda pod: restarts(pod) >= 1, 120)
    told = ("get", "events", "--field-selector", "involvedObject.name=sick")
    eventually(lambda: "Unhealthy" in cluster.kubectl(*told))
    cluster.kubectl("delete", "pod", "sick", "--now")


def test_an_init_container_that_fails_ends_the_pod(cluster: Cluster) -> None:
    cluster.create(pod("stillborn", shell("echo never"), initContainers=[shell("exit 4", "first")]))
    ended = cluster.until("stillborn", phase("Failed"), 120)
    assert ended["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert "waiting" in state(ended)


def test_event_display_prints_what_it_receives(cluster: Cluster) -> None:
    image = "gcr.io/knative-releases/knative.dev/eventing/cmd/event_display"
    cluster.create(pod("display", {"name": "user-container", "image": image}, restart="Always"))
    address = cluster.until("display", is_ready, 120)["status"]["podIP"]
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "content-type": "text/plain"}
    connection = http.client.HTTPConnection(address, 8080, timeout=60)
    connection.request("POST", "/", b"hello", headers)
    assert connection.getresponse().status == 200
    connection.close()
    eventually(lambda: "☁️  cloudevents.Event" in cluster.kubectl("logs", "display", "-c", "user-container"))


def built_in(name: str, **env: str) -> dict[str, Any]:
    """A Pod of `eventshub` with an empty folder at /x."""
    listed = [{"name": key, "value": value} for key, value in env.items()]
    main = {"name": "main", "image": "eventshub", "env": listed, "volumeMounts": [{"name": "x", "mountPath": "/x"}]}
    return pod(name, main, volumes=[{"name": "x", "emptyDir": {}}])


def built_in_programs(folder: str) -> list[psutil.Process]:
    """Those that work for this data folder."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "penstock.workloads.actors" in one.cmdline() and one.environ().get(MARK) == folder:
                found.append(one)
    return found


def test_a_built_in_program_runs_in_a_process_that_sees_its_volumes_alone(cluster: Cluster) -> None:
    data_dir = cluster.settings.data_dir.resolve()
    before = built_in_programs(str(data_dir))
    cluster.create(built_in("apart", EVENT_GENERATORS="receiver", LD_PRELOAD="/x/evil.so", PYTHONHOME="/x"))
    running = cluster.until("apart", is_ready, 120)
    [program] = [one for one in built_in_programs(str(data_dir)) if one not in before]
    assert not program.environ().keys() & {"LD_PRELOAD", "PYTHONHOME", "KUBECONFIG", "EVENT_GENERATORS"}
    if asyncio.run(can_mount(data_dir)):
        seen, folder = Path(f"/proc/{program.pid}/root", *data_dir.parts[1:]), f"apart-{running['metadata']['uid']}"
        assert [str(one.relative_to(seen)) for one in seen.rglob("*")] == [
            "pods",
            "pods/default",
            f"pods/default/{folder}",
            f"pods/default/{folder}/volumes",
            f"pods/default/{folder}/volumes/x",
        ]
    cluster.kubectl("delete", "pod", "apart", "--now")
    eventually(lambda: not program.is_running(), 60)


def test_a_built_in_program_reads_no_file_but_those_of_its_volumes(cluster: Cluster) -> None:
    secret = cluster.settings.data_dir.resolve() / "pki" / "secret.yaml"
    secret.write_text("s3cret")
    sends = {"EVENT_GENERATORS": "sender", "SINK": "http://127.0.0.1:1", "DELAY": "0", "PROBE_SINK": "false"}
    attempts = {
        "token": {
            "ENABLE_OIDC_AUTH": "true",
            "INPUT_BODY": "x",
            "EVENTSHUB_TOKEN": "/x/../../../../../pki/secret.yaml",
        },
        "token-by-path": {"ENABLE_OIDC_AUTH": "true", "INPUT_BODY": "x", "EVENTSHUB_TOKEN": str(secret)},
        "yaml": {"INPUT_YAML": str(secret)},
        "forwarder": {"EVENT_GENERATORS": "forwarder", "FROM_FILES": str(secret)},
        "certificates": {
            "EVENT_GENERATORS": "receiver",
            "ENFORCE_TLS": "true",
            "EVENTSHUB_CERTIFICATES": str(secret.parent),
        },
    }
    for name, env in attempts.items():
        cluster.create(built_in(name, **(sends | env)))
    for name in attempts:
        ended = cluster.until(name, phase("Failed"), 120)
        assert "is not in a volume of this container" in state(ended)["terminated"]["message"]
        assert "s3cret" not in cluster.kubectl("logs", name)
        cluster.kubectl("delete", "pod", name, "--now")
    secret.unlink()


def test_a_built_in_program_ends_with_its_node(cluster: Cluster) -> None:
    cluster.create(built_in("tied", EVENT_GENERATORS="receiver"))
    cluster.until("tied", is_ready, 120)
    before = built_in_programs(str(cluster.settings.data_dir.resolve()))
    assert before
    cluster.stop_node()
    try:
        assert [one for one in before if one.is_running()] == []
    finally:
        cluster.start_node()
    cluster.kubectl("delete", "pod", "tied", "--now")


def test_a_pod_may_not_make_the_program_of_a_setting_run_other_code(cluster: Cluster) -> None:
    evil = "raise SystemExit('other code')"
    cluster.kubectl("create", "configmap", "evil", f"--from-literal=sitecustomize.py={evil}")
    main = {
        "name": "main",
        "image": "test/python",
        "args": ["-c", "print('own code')"],
        "env": [{"name": "PYTHONPATH", "value": "/v"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    cluster.create(pod("preloaded", main, volumes=[{"name": "v", "configMap": {"name": "evil"}}]))
    waiting = cluster.until("preloaded", lambda pod: "waiting" in state(pod) and "PYTHONPATH" in str(state(pod)), 120)
    assert state(waiting)["waiting"]["reason"] == "CreateContainerConfigError"
    assert 'allow_env = ["PYTHONPATH"] in the setting images."test/python"' in state(waiting)["waiting"]["message"]
    allowed = main | {"env": [{"name": "PYTHONSTARTUP", "value": "/v"}]}
    cluster.create(pod("started", allowed, volumes=[{"name": "v", "emptyDir": {}}]))
    cluster.until("started", phase("Succeeded"), 120)
    assert cluster.kubectl("logs", "started") == "own code\n"
    cluster.kubectl("create", "namespace", "elsewhere")
    other = pod("elsewhere", {"name": "main", "image": "test/python"})
    cluster.kubectl("create", "-n", "elsewhere", "-f", "-", stdin=json.dumps(other))
    eventually(lambda: "ImagePullBackOff" in cluster.kubectl("get", "pod", "-n", "elsewhere", "elsewhere"), 60)
    cluster.kubectl("delete", "pod", "preloaded", "--now")
    cluster.kubectl("delete", "namespace", "elsewhere")
