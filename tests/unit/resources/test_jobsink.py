"""Defaults, validation, and what a JobSink makes of an event."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.destinations import ResolvedAddress
from penstock.resources.eventpolicy import OPEN
from penstock.resources.jobsink import job_name, job_of, location_of, read_location, secret_of, status_of

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def sink(pod: Obj | None = None, **spec: Any) -> Obj:
    job = {"job": {"spec": {"template": {"spec": POD if pod is None else pod}}}}
    metadata = {"name": "s", "namespace": "ns", "uid": "u", "generation": 1}
    return {
        "apiVersion": "sinks.knative.dev/v1alpha1",
        "kind": "JobSink",
        "metadata": metadata,
        "spec": spec or job,
    }


def test_containers_are_told_that_they_run_for_one_event(admit: Callable[..., Obj]) -> None:
    pod = {**POD, "initContainers": [{"name": "i", "env": [{"name": "K_EXECUTION_MODE", "value": "own"}]}]}
    found = admit("JobSink", sink(pod))["spec"]["job"]["spec"]["template"]["spec"]
    assert found["containers"][0]["env"] == [{"name": "K_EXECUTION_MODE", "value": "batch"}]
    assert found["initContainers"][0]["env"] == [{"name": "K_EXECUTION_MODE", "value": "own"}]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (sink(other=1), "expected exactly one, got neither: spec.job"),
        (
            sink({"containers": POD["containers"]}),
            'Job.batch "s" is invalid: spec.template.spec.restartPolicy: Required value: '
            'valid values: "OnFailure", "Never": spec.job',
        ),
        (
            sink({"restartPolicy": "Always"}),
            'Job.batch "s" is invalid: [spec.template.spec.containers: Required value, '
            'spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: "OnFailure", "Never"]: '
            "spec.job",
        ),
    ],
)
def test_a_job_that_kubernetes_would_not_take_is_refused(refusal: Callable[..., str], obj: Obj, message: str) -> None:
    assert refusal("JobSink", obj) == DENIED + message


def test_the_name_follows_from_source_and_id() -> None:
    digest = hashlib.md5(b"/s1", usedforsecurity=False).hexdigest()
    assert job_name("s", "/s", "1") == f"s-{digest}"
    long = job_name("x" * 60, "/s", "1")
    assert len(long) == 63
    assert long != job_name("x" * 60, "/s", "2")


def test_the_job_has_the_event_mounted_and_its_secret_goes_with_it() -> None:
    job = job_of(sink(), "s-1")
    assert job["metadata"]["labels"] == {
        "sinks.knative.dev/job-sink-id": "s-1",
        "sinks.knative.dev/job-sink-name": "s",
    }
    assert job["metadata"]["ownerReferences"][0]["uid"] == "u"
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["volumeMounts"] == [{"name": "jobsink-event", "readOnly": True, "mountPath": "/etc/jobsink-event"}]
    assert {"name": "K_EVENT_PATH", "value": "/etc/jobsink-event"} in container["env"]
    assert pod["volumes"] == [{"name": "jobsink-event", "secret": {"secretName": "s-1"}}]
    job["metadata"]["uid"] = "job"
    secret = secret_of(sink(), job, b"{}")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "job"
    assert (secret["immutable"], base64.b64decode(secret["data"]["event"])) == (True, b"{}")


def test_a_mount_of_its_own_is_kept() -> None:
    mount = {"name": "jobsink-event", "mountPath": "/here"}
    pod = {**POD, "containers": [{"name": "c", "image": "i", "volumeMounts": [mount]}]}
    [container] = job_of(sink(pod), "s-1")["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == [mount]
    assert {"name": "K_EVENT_PATH", "value": "/here"} in container["env"]


@pytest.mark.parametrize("source", ["/s", "http://example.com/a?b=c", "urn:ä/ö%2F"])
def test_a_location_says_which_event_is_meant(source: str) -> None:
    assert read_location(location_of("ns", "s", source, "1/2")) == ("ns", "s", source, "1/2")
    assert read_location("/ns/s") is None
    assert read_location("/a/ns/name/s/sources/x/ids/1") is None


def test_it_is_ready_at_once_and_says_how_to_find_its_jobs() -> None:
    status = status_of(sink(), (ResolvedAddress("http://job-sink/ns/s"),), OPEN, "now")
    assert status["address"] == {"name": "http", "url": "http://job-sink/ns/s"}
    assert status["job"] == {"selector": "sinks.knative.dev/job-sink-name=s"}
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
