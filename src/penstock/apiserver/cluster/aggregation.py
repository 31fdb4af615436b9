"""Aggregated ClusterRoles: their rules are collected from the ClusterRoles that they select, after every change."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from functools import partial

import structlog

from penstock.apiserver.access.identity import MASTERS
from penstock.apiserver.access.policy import CLUSTER_ROLES
from penstock.apiserver.documents import encode, meta
from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds.registry import ServedKind
from penstock.apiserver.store.storage import Change, Store, Transaction
from penstock.apiserver.verbs.writing import Verbs, WriteTarget
from penstock.kube.kinds import Obj
from penstock.observability.logs import describe
from penstock.resources.metadata import selector_matches

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 2.0
"""Pause before a failed write is retried."""

_USER = "system:serviceaccount:kube-system:clusterrole-aggregation-controller"
_MANAGER = "clusterrole-aggregation-controller"


class Aggregation:
    """Writes the rules of ClusterRoles with an `aggregationRule`."""

    def __init__(self, verbs: Verbs, cluster_roles: ServedKind) -> None:
        self._verbs, self._kind = verbs, cluster_roles
        self._changed = asyncio.Event()

    def follow(self, changes: Iterable[Change]) -> None:
        """Notes whether ClusterRoles have changed."""
        if any(change.resource == CLUSTER_ROLES for change in changes):
            self._changed.set()

    async def run(self, store: Store) -> None:
        """Updates aggregated ClusterRoles until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await store.write(self.update_outdated)
            except (ApiError, sqlite3.Error) as error:
                # A full disk, for example.
                log.warning("aggregated ClusterRoles could not be updated", error=describe(error))
                self._changed.set()
                await asyncio.sleep(PAUSE_SECONDS)

    def update_outdated(self, tx: Transaction) -> None:
        """Writes the ClusterRoles whose rules are outdated."""
        stored = [tx.get(*key) for key in tx.keys_of_resource(CLUSTER_ROLES)]
        roles = [role for role in stored if role is not None]
        for name, rules in outdated(roles).items():
            target = WriteTarget(self._kind, "", name, _USER, _MANAGER, field_validation="Ignore", groups=(MASTERS,))
            self._verbs.update(tx, target, partial(_with_rules, rules))


def outdated(roles: Iterable[Obj]) -> dict[str, list[Obj]]:
    """The rules, by name, of aggregated roles whose stored rules differ from those that their selectors give."""
    current = {meta(role)["name"]: role for role in sorted(roles, key=lambda role: str(meta(role)["name"]))}
    changed: dict[str, list[Obj]] = {}
    # Aggregated roles may select aggregated roles: every round settles at least one more level.
    for _ in current:
        found = {
            name: rules
            for name, role in current.items()
            if _selectors(role) and (rules := _gathered(role, current.values())) != list(role.get("rules") or ())
        }
        if not found:
            break
        changed |= found
        current |= {name: {**current[name], "rules": rules} for name, rules in found.items()}
    return changed


def _with_rules(rules: list[Obj], role: Obj) -> Obj:
    return {**role, "rules": rules}


def _gathered(role: Obj, roles: Iterable[Obj]) -> list[Obj]:
    rules: dict[bytes, Obj] = {}
    for other in roles:
        labels = meta(other).get("labels") or {}
        if meta(other)["name"] != meta(role)["name"] and any(selector_matches(one, labels) for one in _selectors(role)):
            for rule in other.get("rules") or ():
                rules.setdefault(encode(sorted(rule.items())), rule)
    return list(rules.values())


def _selectors(role: Obj) -> list[Obj]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
