"""Which addresses events may be delivered to.

A user who may create a Trigger may make penstock connect to any address, from inside a network that others cannot
reach. So addresses are checked after names were resolved, and for every connection: a name that resolves to another
address the next time is checked again.

The longest network that contains an address decides: among the lists of the event's namespace if they name it, else
among the common ones, else among what is refused by itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.settings import Network, Settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED: Mapping[Network, str] = {
    ipaddress.ip_network(network): what
    for network, what in {
        "0.0.0.0/8": "no host",
        "100.100.100.200/32": "where a cloud answers with credentials",
        "168.63.129.16/32": "where a cloud answers its machines",
        "169.254.0.0/16": "link-local, where clouds answer with credentials",
        "192.0.0.192/32": "where a cloud answers with credentials",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "::/128": "no host",
        "fd00:ec2::254/128": "where a cloud answers with credentials",
        "fd20:ce::254/128": "where a cloud answers with credentials",
        "fe80::/10": "link-local",
        "ff00::/8": "multicast",
    }.items()
}
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""Networks whose addresses end with the IPv4 address that they lead to: NAT64, the same for private use, and the first
form of all, `::a.b.c.d`."""
ONLY_IPV6 = tuple(map(ipaddress.ip_address, ("::", "::1")))


@dataclass(frozen=True)
class NetworkRules:
    """Networks, each with the reason why it is refused; None where it is allowed."""

    networks: Mapping[Network, str | None] = field(default_factory=dict)

    def evaluate(self, address: Address) -> tuple[bool, str | None]:
        """Whether a network contains the address, and why it is refused."""
        found = [network for network in self.networks if address in network]
        if not found:
            return False, None
        return True, self.networks[max(found, key=lambda network: network.prefixlen)]


class Destinations:
    """Checks addresses by the settings."""

    def __init__(self, settings: Settings) -> None:
        by_itself: dict[Network, str | None] = dict(REFUSED)
        loopback = settings.deliver_loopback
        if not (settings.kubeconfig is None if loopback is None else loopback):
            by_itself |= dict.fromkeys(LOOPBACK, "this very machine, see the setting deliver_loopback")
        self._own = {
            namespace: _rules(lists.allow, lists.deny, f"deliver_namespaces.{namespace}.deny")
            for namespace, lists in settings.deliver_namespaces.items()
        }
        self._common = _rules(settings.deliver_allow, settings.deliver_deny, "deliver_deny")
        self._by_itself = NetworkRules(by_itself)

    def zone(self, namespace: str) -> str:
        """The key of a namespace's rules: its name where it has its own; otherwise empty."""
        return namespace if namespace in self._own else ""

    def refusal(self, zone: str, address: str) -> str | None:
        """Why events may not be delivered there; None where they may."""
        reached = _reached(address)
        own = self._own.get(zone)
        for rules in (own, self._common, self._by_itself):
            if rules is None:
                continue
            named, refused = rules.evaluate(reached)
            if named:
                return None if refused is None else f"{address} is refused as a destination: {refused}"
        return None


def _rules(allow: Iterable[Network], deny: Iterable[Network], setting: str) -> NetworkRules:
    refused: dict[Network, str | None] = {network: f"{network} is in {setting}" for network in deny}
    return NetworkRules(dict.fromkeys(allow, None) | refused)


def _reached(address: str) -> Address:
    """The address that a connection reaches: the embedded IPv4 address, where there is one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if found not in ONLY_IPV6 and any(found in network for network in EMBEDDING):
        return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found.ipv4_mapped or found.sixtofour or found
