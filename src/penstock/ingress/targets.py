"""Which Broker or Channel a request is for: by its path, or by its Host where the path is `/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import httptools

from penstock.contract.routes import Target
from penstock.observability.metrics import TargetMetrics
from penstock.observability.trace import destination
from penstock.resources.eventpolicy import TargetRules

_CLUSTER_SUFFIXES = (".cluster.local", ".svc.cluster.local")
"""What a name inside the cluster may omit."""


class ResolvedTarget:
    """A target with what the ingress keeps beside it."""

    __slots__ = ("is_broker", "metrics", "place", "rules", "target", "tells_types", "transports", "uid")

    def __init__(self, target: Target, metrics: TargetMetrics) -> None:
        self.target = target
        self.metrics = metrics
        self.uid = target.uid.encode()
        self.is_broker = target.kind == "Broker"
        self.tells_types = target.tells_types
        self.transports = (target.transport != "strict", target.transport != "disabled")
        """Whether events are taken over HTTP, and whether over HTTPS."""
        self.place = destination(target.kind, target.namespace, target.name)
        self.rules = None if target.access is None else TargetRules(target.namespace, target.access)
        """Who may send to it; None: no restriction."""


class TargetTable:
    """The targets of one snapshot. Never changes."""

    def __init__(self, targets: Iterable[Target] = (), before: TargetTable | None = None) -> None:
        former = before.by_uid if before is not None else {}
        self.by_uid: Mapping[str, ResolvedTarget] = {
            target.uid: ResolvedTarget(
                target,
                former[target.uid].metrics
                if target.uid in former
                else TargetMetrics(target.kind, target.namespace, target.name),
            )
            for target in targets
        }
        self._paths: dict[str, ResolvedTarget] = {}
        self._hosts: dict[str, ResolvedTarget] = {}
        for resolved in self.by_uid.values():
            for path in resolved.target.paths:
                self._paths[path] = resolved
            for host in resolved.target.hosts:
                for name in _names(host.lower()):
                    self._hosts[name] = resolved
        self._urls = {path.encode(): resolved for path, resolved in self._paths.items()}
        """URLs as they nearly always are: the bare path, which needs no parsing."""
        if before is not None:
            _forget_gone(before, self)

    def find(self, url: bytes, host: str) -> ResolvedTarget | None:
        """The target at the path of this address; for `/`, the one with this Host."""
        found = self._urls.get(url)
        if found is not None:
            return found
        path = path_of(url)
        if path not in ("/", ""):
            return self._paths.get(path)
        name = host.lower()
        if not name.startswith("["):
            name = name.partition(":")[0]
        return self._hosts.get(name.rstrip("."))


def path_of(url: bytes) -> str:
    """The path of an address, without query and percent-encoding; empty where the URL is invalid."""
    try:
        path = httptools.parse_url(url).path
    except httptools.HttpParserInvalidURLError:
        return ""
    return unquote(path.decode("latin-1")) if path else ""


def _names(host: str) -> Iterable[str]:
    yield host
    for suffix in _CLUSTER_SUFFIXES:
        if host.endswith(suffix):
            yield host.removesuffix(suffix)


def _forget_gone(before: TargetTable, now: TargetTable) -> None:
    # A target that was deleted and made anew has another uid but the same name, and so the same metrics.
    used = {(a.target.kind, a.target.namespace, a.target.name) for a in now.by_uid.values()}
    for uid, resolved in before.by_uid.items():
        target = resolved.target
        if uid not in now.by_uid and (target.kind, target.namespace, target.name) not in used:
            resolved.metrics.forget()
