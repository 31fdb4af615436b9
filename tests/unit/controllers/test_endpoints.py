"""What a Service leads to."""

from typing import Any

import pytest

from penstock.controllers.reconcilers.services import endpoints_of, name_of, selects
from penstock.resources.metadata import POD_PORTS


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": spec}


def pod(name: str, ip: str = "", ready: bool = True, phase: str = "Running", **labels: str) -> dict[str, Any]:
    ports = [{"name": "web", "containerPort": 9000}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": [{"ports": ports}]},
        "status": {
            "phase": phase,
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


PORTS = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "admin", "port": 81, "targetPort": 8081}]


def test_a_service_selects_by_all_labels_in_its_namespace() -> None:
    wanted = service(selector={"app": "a", "tier": "b"})
    assert selects(wanted, pod("p", app="a", tier="b", more="c"))
    assert not selects(wanted, pod("p", app="a"))
    assert not selects(service(), pod("p", app="a"))
    elsewhere = pod("p", app="a", tier="b")
    elsewhere["metadata"]["namespace"] = "other"
    assert not selects(wanted, elsewhere)


def test_ready_pods_are_addresses_and_others_are_not() -> None:
    pods = [pod("b", "10.0.0.2"), pod("a", "10.0.0.1"), pod("c", "10.0.0.3", ready=False), pod("d", "")]
    (subset,) = endpoints_of(service(ports=PORTS), pods)
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.1", "10.0.0.2"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.0.0.3"]
    assert subset["ports"] == [
        {"name": "http", "port": 9000, "protocol": "TCP"},
        {"name": "admin", "port": 8081, "protocol": "TCP"},
    ]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_ended_are_no_endpoints(phase: str) -> None:
    assert endpoints_of(service(ports=PORTS), [pod("a", "10.0.0.1", phase=phase)]) == []


def test_pods_with_other_port_numbers_are_a_subset_of_their_own() -> None:
    odd = pod("b", "10.0.0.2")
    odd["spec"]["containers"][0]["ports"][0]["containerPort"] = 9001
    found = endpoints_of(service(ports=PORTS[:1]), [pod("a", "10.0.0.1"), odd])
    assert [subset["ports"][0]["port"] for subset in found] == [9000, 9001]


def test_a_pod_that_has_other_ports_is_reached_at_those() -> None:
    wanted, moved = service(ports=PORTS), pod("a", "127.0.0.1")
    moved["metadata"]["annotations"] = {POD_PORTS: "9000=41234, 8082=41235,"}
    found = endpoints_of(wanted, [moved, pod("b", "127.66.0.2")])
    assert [subset["ports"] for subset in found] == [
        [{"name": "http", "port": 9000, "protocol": "TCP"}, {"name": "admin", "port": 8081, "protocol": "TCP"}],
        [{"name": "http", "port": 41234, "protocol": "TCP"}, {"name": "admin", "port": 8081, "protocol": "TCP"}],
    ]
    assert name_of(wanted, found).ports == {
        "80": ("127.66.0.2:9000", "127.0.0.1:41234"),
        "81": ("127.66.0.2:8081", "127.0.0.1:8081"),
    }


@pytest.mark.parametrize(
    "written", ["8081=" + "9" * 5000, "", "9000", "9000=", "=41234", "9000=web", "a=b,9000=-1", "9000=0"]
)
def test_a_port_mapping_that_is_none_changes_nothing(written: str) -> None:
    odd = pod("a", "10.0.0.1")
    odd["metadata"]["annotations"] = {POD_PORTS: written}
    assert endpoints_of(service(ports=PORTS), [odd]) == endpoints_of(service(ports=PORTS), [pod("a", "10.0.0.1")])


@pytest.mark.parametrize("target", [-1, 65536, 10**30, "0", "65536", "9" * 5000, "²", True])
def test_a_target_port_that_cannot_be_one_leads_nowhere(target: object) -> None:
    wanted = service(ports=[{"port": 80, "targetPort": target}])
    assert name_of(wanted, endpoints_of(wanted, [pod("a", "10.0.0.1")])).ports == {"80": ()}


def test_the_name_leads_to_each_ready_address_by_service_port() -> None:
    wanted = service(ports=PORTS)
    name = name_of(wanted, endpoints_of(wanted, [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready=False)]))
    assert name.host == "s.ns.svc.cluster.local"
    assert name.ports == {"80": ("10.0.0.1:9000",), "81": ("10.0.0.1:8081",)}


def test_a_service_that_selects_nothing_has_ports_without_addresses() -> None:
    assert name_of(service(ports=PORTS), []).ports == {"80": (), "81": ()}


def test_a_port_without_a_target_port_is_its_own() -> None:
    wanted = service(ports=[{"port": 8080}])
    assert name_of(wanted, endpoints_of(wanted, [pod("a", "::1")])).ports == {"8080": ("[::1]:8080",)}


def test_a_target_port_that_no_container_names_leads_nowhere() -> None:
    wanted = service(ports=[{"port": 80, "targetPort": "nobody"}])
    assert name_of(wanted, endpoints_of(wanted, [pod("a", "10.0.0.1")])).ports == {"80": ()}


@pytest.mark.parametrize("external", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize(
    ("port", "address"), [({"port": 3000}, "127.0.0.1:3000"), ({"port": 80, "targetPort": 3001}, "127.0.0.1:3001")]
)
def test_an_external_name_to_localhost_maps_to_the_machine(external: str, port: dict[str, int], address: str) -> None:
    wanted = service(type="ExternalName", externalName=external, ports=[port])
    assert name_of(wanted, []).ports == {str(port["port"]): (address,)}


def test_an_external_name_without_ports_leads_to_the_usual_ones() -> None:
    found = name_of(service(type="ExternalName", externalName="example.com"), [])
    assert found.ports == {"80": ("example.com:80",), "443": ("example.com:443",)}
