"""The manifests: the same wherever they are found, complete, and without rights on the machines they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.engine.roles.table import ROLES
from penstock.install.__main__ import everything
from penstock.install.manifests import chosen, text
from penstock.install.objects import NOT_SERVED
from penstock.install.values import Values
from penstock.resources.registry import ADMISSION
from penstock.settings import Settings
from penstock.webhook import certificates

Obj = dict[str, Any]
DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture(scope="module")
def objects() -> list[Obj]:
    return [one.obj for one in chosen(Values())]


def of_kind(objects: list[Obj], kind: str) -> list[Obj]:
    return [one for one in objects if one["kind"] == kind]


def test_the_files_under_deploy_are_those_that_are_made() -> None:
    made = everything()
    for name, content in made.items():
        assert (DEPLOY / name).read_text() == content, f"deploy/{name} is not up to date: run `make manifests`"
    made_folders = [DEPLOY / "manifests", DEPLOY / "helm"]
    found = {str(path.relative_to(DEPLOY)) for folder in made_folders for path in folder.rglob("*.*")}
    assert found <= set(made), "files under deploy/ that nothing makes"


def test_the_text_says_the_same_as_the_objects(objects: list[Obj]) -> None:
    assert list(yaml.safe_load_all(text(objects))) == objects


def test_no_object_is_there_twice(objects: list[Obj]) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))


def test_choices_decide_what_is_there() -> None:
    with_all = [one.obj for one in chosen(Values(service_monitor=True, spark_executors=True))]
    assert of_kind(with_all, "ServiceMonitor")
    assert "penstock-executors" in {one["metadata"]["name"] for one in of_kind(with_all, "Role")}
    with_little = [one.obj for one in chosen(Values(network_policies=False))]
    assert not of_kind(with_little, "ServiceMonitor")
    assert not of_kind(with_little, "NetworkPolicy")
    assert "penstock-executors" not in {one["metadata"]["name"] for one in of_kind(with_little, "Role")}


def test_each_role_runs_without_rights_on_its_machine(objects: list[Obj]) -> None:
    deployments = of_kind(objects, "Deployment")
    assert {one["metadata"]["name"] for one in deployments} == {
        f"penstock-{role}" for role in ("ingress", "control", "webhook", "pipeline", "console")
    }
    for one in deployments:
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        # Kubernetes would otherwise set variables that look like settings.
        assert pod["enableServiceLinks"] is False


def test_each_role_is_probed_where_it_answers(objects: list[Obj]) -> None:
    ports = {role.name: role.health_port for role in ROLES}
    for one in of_kind(objects, "Deployment"):
        (container,) = one["spec"]["template"]["spec"]["containers"]
        named = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert named["metrics"] == ports[container["args"][0]]
        probed = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
        assert probed == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}


def test_a_pod_has_time_to_drain(objects: list[Obj]) -> None:
    drain = Settings(**Values().settings).drain_seconds
    for one in of_kind(objects, "Deployment"):
        pod = one["spec"]["template"]["spec"]
        before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["terminationGracePeriodSeconds"] > before + drain


def test_services_select_pods_and_lead_to_their_ports(objects: list[Obj]) -> None:
    pods = [one["spec"]["template"] for one in of_kind(objects, "Deployment")]
    for service in of_kind(objects, "Service"):
        (pod,) = [one for one in pods if service["spec"]["selector"].items() <= one["metadata"]["labels"].items()]
        named = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


def test_the_address_of_brokers_is_that_of_a_service(objects: list[Obj]) -> None:
    (ingress,) = [one for one in of_kind(objects, "Service") if one["metadata"]["name"] == "broker-ingress"]
    assert Values().settings["address_base"].startswith("http://broker-ingress.knative-eventing.svc.")
    assert ingress["spec"]["ports"][0]["port"] == 80


def test_everything_that_must_trust_the_webhook_calls_it(objects: list[Obj]) -> None:
    stored = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    for name in certificates.bundle_holders():
        assert certificates.with_bundle(stored[name.kind.kind, name.name], b"pem") is not None
    assert ("Secret", certificates.CERTIFICATES_SECRET) in stored


def test_every_kind_with_rules_is_registered_under_the_name_its_messages_carry(objects: list[Obj]) -> None:
    (validating,) = of_kind(objects, "ValidatingWebhookConfiguration")
    found = {
        (group, resource): hook["name"]
        for hook in validating["webhooks"]
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    plurals = {
        (one["spec"]["group"], one["spec"]["names"]["kind"]): one["spec"]["names"]["plural"]
        for one in of_kind(objects, "CustomResourceDefinition")
    }
    served = [kind for kind in ADMISSION if kind not in NOT_SERVED]
    assert set(served) <= set(plurals)
    for group, kind in served:
        assert found[group, plurals[group, kind]] == getattr(ADMISSION[group, kind], "webhook", None)


def test_settings_reach_the_roles_as_variables(objects: list[Obj]) -> None:
    (settings,) = [one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == "penstock-settings"]
    assert settings["data"]["PENSTOCK_BROKER_CLASSES"] == '["Penstock"]'
    assert settings["data"]["PENSTOCK_KUBECONFIG"] == "in-cluster"
    assert all(isinstance(value, str) for value in settings["data"].values())


def rules_of(objects: list[Obj], account: str) -> list[Obj]:
    """What a ServiceAccount may do in the whole cluster."""
    bound = {
        one["roleRef"]["name"]
        for one in of_kind(objects, "ClusterRoleBinding")
        if any(subject["name"] == account for subject in one["subjects"])
    }
    roles = [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] in bound]
    return [rule for one in roles for rule in one.get("rules") or []]


@pytest.mark.parametrize(
    ("without", "verb", "resource"),
    [
        (Values(api_server_sources=False), "impersonate", "serviceaccounts"),
        (Values(sink_bindings=False), "update", "configmaps"),
        (Values(sink_bindings=False), "update", "deployments"),
        (Values(sink_bindings=False), "update", "jobs"),
    ],
    ids=["impersonation", "configmaps", "deployments", "jobs"],
)
def test_what_a_source_needs_in_every_namespace_can_be_left_out(without: Values, verb: str, resource: str) -> None:
    def allowed(values: Values) -> bool:
        rules = rules_of([one.obj for one in chosen(values)], "eventing-controller")
        return any(verb in rule["verbs"] and resource in rule["resources"] for rule in rules)

    assert allowed(Values())
    assert not allowed(without)


def test_the_roles_for_events_of_other_namespaces_are_those_of_knative(objects: list[Obj]) -> None:
    roles = {one["metadata"]["name"]: one for one in of_kind(objects, "ClusterRole")}
    (selector,) = roles["crossnamespace-subscriber"]["aggregationRule"]["clusterRoleSelectors"]
    collected = {
        name: one["rules"]
        for name, one in roles.items()
        if selector["matchLabels"].items() <= one["metadata"]["labels"].items()
    }
    assert collected == {
        f"{name}-subscriber": [{"apiGroups": [group], "resources": [resource], "verbs": ["knsubscribe"]}]
        for name, group, resource in (
            ("channel", "messaging.knative.dev", "channels"),
            ("broker", "eventing.knative.dev", "brokers"),
            ("imc", "messaging.knative.dev", "inmemorychannels"),
        )
    }
    assert {"create"} == {
        verb
        for rule in rules_of(objects, "penstock-webhook")
        if "subjectaccessreviews" in rule["resources"]
        for verb in rule["verbs"]
    }
