"""Where names of the embedded control plane lead."""

from __future__ import annotations

import pytest

from penstock.contract.names import Location, NameTable, NothingThere
from penstock.contract.routes import ServiceName

TABLE = NameTable(
    [
        ServiceName(
            "sink.ns.svc.cluster.local",
            {"80": ("127.66.0.1:8080", "127.66.0.2:8080"), "443": ("127.66.0.1:8443",), "9000": ()},
        ),
    ]
)


@pytest.mark.parametrize("host", ["sink.ns.svc.cluster.local", "sink.ns.svc", "sink.ns", "SINK.ns"])
def test_a_name_is_found_in_full_and_short(host: str) -> None:
    assert TABLE.locate(f"http://{host}/path?q=1").url in {
        "http://127.66.0.1:8080/path?q=1",
        "http://127.66.0.2:8080/path?q=1",
    }


def test_the_request_keeps_the_name_as_its_host() -> None:
    assert TABLE.locate("http://sink.ns.svc.cluster.local/").host == "sink.ns.svc.cluster.local"
    assert TABLE.locate("http://sink.ns:80/").host == "sink.ns:80"


def test_the_addresses_take_turns() -> None:
    assert len({TABLE.locate("http://sink.ns/").url for _ in range(4)}) == 2


def test_a_name_without_a_ready_address_refuses() -> None:
    with pytest.raises(NothingThere, match=r"sink\.ns:9000"):
        TABLE.locate("http://sink.ns:9000/")
    with pytest.raises(NothingThere, match=r"sink\.ns:9000"):
        TABLE.locate("https://sink.ns:9000/")


def test_over_tls_the_url_keeps_the_name_that_the_certificate_is_for() -> None:
    secure = TABLE.locate("https://sink.ns/path?q=1")
    assert secure.named_url == "https://sink.ns:8443/path?q=1"
    assert secure.url == "https://127.66.0.1:8443/path?q=1"
    assert secure.lead == ("sink.ns", "127.66.0.1", 8443)
    assert TABLE.locate("http://sink.ns/").lead is None
    assert TABLE.locate("http://sink.ns/").named_url in {"http://127.66.0.1:8080/", "http://127.66.0.2:8080/"}
    assert TABLE.locate("https://example.test:8443/x").named_url == "https://example.test:8443/x"


def test_other_names_are_left_to_dns() -> None:
    assert TABLE.locate("http://example.test/x") == Location("http://example.test/x")
    assert TABLE.locate("http://other.ns/") == Location("http://other.ns/")


def test_every_address_of_a_name_is_there_for_when_one_does_not_answer() -> None:
    assert [(place.url, place.host) for place in TABLE.every_location("http://sink.ns/a")] == [
        ("http://127.66.0.1:8080/a", "sink.ns"),
        ("http://127.66.0.2:8080/a", "sink.ns"),
    ]
    for url in ("http://sink.ns:9000/", "http://sink.ns:1/", "http://example.test/"):
        assert TABLE.every_location(url) == []
