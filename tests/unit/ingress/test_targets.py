"""Finding the target of a request."""

from __future__ import annotations

import pytest

from penstock.contract.routes import Target
from penstock.ingress.targets import TargetTable
from penstock.observability.instruments import REGISTRY, write_metrics

BROKER = Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",))
CHANNEL = Target(
    "c-uid", "Channel", "shop", "pipe", ("/channels/shop/pipe",), ("pipe-kn-channel.shop.svc.cluster.local",)
)
TABLE = TargetTable([BROKER, CHANNEL])


@pytest.mark.parametrize(
    ("path", "host", "target"),
    [
        ("/shop/orders", b"127.0.0.1:8080", BROKER),
        ("/shop/orders?a=b", b"", BROKER),
        ("/shop/%6frders", b"", BROKER),
        ("http://somewhere/shop/orders", b"", BROKER),
        ("http://somewhere", b"pipe-kn-channel.shop", CHANNEL),
        ("/shop/orders", b"broker-ingress.knative-eventing.svc.cluster.local", BROKER),
        ("/channels/shop/pipe", b"", CHANNEL),
        ("/", b"pipe-kn-channel.shop.svc.cluster.local", CHANNEL),
        ("/", b"Pipe-kn-channel.shop.svc.cluster.local:80", CHANNEL),
        ("/", b"pipe-kn-channel.shop.svc.cluster.local.", CHANNEL),
        ("/", b"pipe-kn-channel.shop.svc", CHANNEL),
        ("/", b"pipe-kn-channel.shop", CHANNEL),
        ("/", b"other-kn-channel.shop.svc.cluster.local", None),
        ("/", b"[::1]:8080", None),
        ("/", b"\xff", None),
        ("/shop", b"", None),
        ("/shop/orders/", b"", None),
        ("/x", b"pipe-kn-channel.shop.svc.cluster.local", None),
    ],
)
def test_by_path_or_host(path: str, host: bytes, target: Target | None) -> None:
    found = TABLE.find(path.encode(), host.decode("latin-1"))
    assert (found.target if found else None) == target


def _accepted(name: str) -> float | None:
    labels = {"kind": "Broker", "namespace": "metrics", "name": name}
    write_metrics()
    return REGISTRY.get_sample_value("penstock_events_accepted_total", labels)


def test_metrics_live_as_long_as_the_target() -> None:
    first = Target("1", "Broker", "metrics", "stays", ("/metrics/stays",))
    second = Target("2", "Broker", "metrics", "goes", ("/metrics/goes",))
    table = TargetTable([first, second])
    for resolved in table.by_uid.values():
        resolved.metrics.accepted(1, 0.01)
    after = TargetTable([first], table)
    assert (_accepted("stays"), _accepted("goes")) == (1, None)
    again = TargetTable([Target("3", "Broker", "metrics", "stays", ("/metrics/stays",))], after)
    again.by_uid["3"].metrics.accepted(1, 0.01)
    assert _accepted("stays") == 2
