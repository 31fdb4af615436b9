"""Which addresses events may be delivered to."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.destinations import Destinations
from penstock.settings import Settings


def given(**settings: Any) -> Settings:
    """Settings as they are written, in flags and files."""
    return Settings(**settings)


def refusal(address: str, zone: str = "", **settings: Any) -> str | None:
    return Destinations(given(**settings)).refusal(zone, address)


@pytest.mark.parametrize("address", ["10.0.0.1", "93.184.216.34", "2001:db8::1", "127.0.0.1", "::1", "192.168.1.1"])
def test_most_addresses_are_allowed(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.251", "ff02::1", "255.255.255.255", "0.0.0.0", "::"),
        *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254"),
        *("64:ff9b:1::a9fe:a9fe", "64:ff9b:1:2:3:4:a9fe:a9fe", "::169.254.169.254", "64:ff9b::6464:64c8"),
        *("::ffff:168.63.129.16", "2002:c000:00c0::"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fd00:ec2::254"),
    ],
)
def test_what_nobody_means_is_refused_in_every_form(address: str) -> None:
    assert "is refused as a destination" in (refusal(address) or "")


def test_this_machine_is_for_laptops() -> None:
    cluster = Path("/a/kubeconfig")
    assert "deliver_loopback" in (refusal("127.0.0.1", kubeconfig=cluster) or "")
    for form in ("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::"):
        assert "deliver_loopback" in (refusal(form, kubeconfig=cluster) or ""), form
    assert refusal("127.0.0.1", kubeconfig=cluster, deliver_loopback=True) is None
    assert refusal("::1", deliver_loopback=False) is not None


def test_an_address_that_embeds_another_is_judged_by_that() -> None:
    lists = {"deliver_deny": "10.0.0.0/8", "deliver_allow": "10.1.0.0/16"}
    for form in ("::10.2.0.1", "64:ff9b:1::a02:1"):
        assert "10.0.0.0/8 is in deliver_deny" in (refusal(form, **lists) or "")
    for form in ("::10.1.0.1", "64:ff9b:1::a01:1"):
        assert refusal(form, **lists) is None


def test_the_longest_network_decides() -> None:
    lists = {"deliver_deny": "10.0.0.0/8,0.0.0.0/0", "deliver_allow": "10.1.0.0/16"}
    assert refusal("10.1.2.3", **lists) is None
    assert "10.0.0.0/8 is in deliver_deny" in (refusal("10.2.2.3", **lists) or "")
    assert "0.0.0.0/0 is in deliver_deny" in (refusal("93.184.216.34", **lists) or "")


def test_of_two_equal_networks_the_one_that_refuses_counts() -> None:
    assert refusal("10.1.2.3", deliver_deny="10.0.0.0/8", deliver_allow="10.0.0.0/8") is not None


def test_what_is_refused_by_itself_can_be_allowed_by_name() -> None:
    assert refusal("169.254.10.1", deliver_allow="169.254.10.1") is None
    assert refusal("169.254.10.2", deliver_allow="169.254.10.1") is not None


def test_the_lists_of_a_namespace_come_first() -> None:
    lists: dict[str, Any] = {
        "deliver_deny": "10.0.0.0/8",
        "deliver_namespaces": {"trusted": {"allow": "10.0.0.0/8"}, "confined": {"deny": ["0.0.0.0/0"]}},
    }
    assert refusal("10.1.1.1", **lists) is not None
    assert refusal("10.1.1.1", "trusted", **lists) is None
    assert "deliver_namespaces.confined.deny" in (refusal("93.184.216.34", "confined", **lists) or "")
    assert refusal("169.254.169.254", "trusted", **lists) is not None


def test_only_namespaces_with_lists_have_connections_of_their_own() -> None:
    destinations = Destinations(given(deliver_namespaces={"team": {}}))
    assert (destinations.zone("team"), destinations.zone("default")) == ("team", "")


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "10.0.0.0/33", "example.com"])
def test_what_is_no_network_is_told(wrong: str) -> None:
    with pytest.raises(ValidationError, match="deliver_deny"):
        given(deliver_deny=wrong)


def test_the_lists_survive_the_way_to_another_process() -> None:
    settings = given(deliver_deny="10.0.0.0/8", deliver_namespaces='{"team": {"allow": ["10.1.0.0/16"]}}')
    assert Settings(**settings.model_dump(mode="json")) == settings
