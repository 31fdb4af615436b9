"""Copies of the trust bundles in the namespaces of SinkBindings: made, kept the same, removed with the bundle.

Every SinkBinding of a namespace owns them, so that they go with the last one. In the system namespace there are none:
the bundles themselves are there.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable

from penstock.controllers.reconciler import ReconcilerContext
from penstock.controllers.reconcilers.parts import PartFailed, answered
from penstock.controllers.tracker import Observer
from penstock.kube.errors import NotFound
from penstock.kube.kinds import CONFIG_MAP, SINK_BINDING, Key, Obj, key_of
from penstock.resources.admission import SYSTEM_NAMESPACE
from penstock.resources.trust_bundles import brought_up_to_date, copies_of, is_bundle, is_copy, is_owned_by


class BundleCopies:
    """The trust bundles of every namespace, as SinkBindings need them."""

    def __init__(
        self, world: ReconcilerContext, enqueue: Callable[[Observer], None], trusted: Callable[[], str]
    ) -> None:
        """`trusted` are the certificates of all bundles, in PEM."""
        self._world, self._enqueue, self._trusted = world, enqueue, trusted
        self._bundles: dict[str, dict[str, Obj]] = defaultdict(dict)
        """By namespace and name; users may have some of their own."""
        world.tracker.informer(CONFIG_MAP).listen(self._announce)

    async def ensure(self, binding: Obj) -> tuple[list[str], str | None]:
        """Has every copy made for the SinkBinding. The names of the bundles that Pods of its namespace are to mount,
        and why a copy cannot be had."""
        namespace, problem = binding["metadata"]["namespace"], None
        mounted = {name for name, one in self._bundles[namespace].items() if not is_copy(one)}
        for wanted in self._wanted(namespace):
            try:
                await self._ensure(wanted, binding)
                mounted.add(wanted["metadata"]["name"])
            except PartFailed as error:
                problem = str(error)
        return sorted(mounted), problem

    async def remove_others(self, binding: Obj) -> None:
        """Removes the SinkBinding's copies of bundles that are gone."""
        namespace = binding["metadata"]["namespace"]
        wanted = {one["metadata"]["name"] for one in self._wanted(namespace)}
        for name, one in list(self._bundles[namespace].items()):
            if is_copy(one) and is_owned_by(one, binding) and name not in wanted:
                with contextlib.suppress(NotFound):
                    await self._world.api.delete(CONFIG_MAP, key_of(one))

    def _wanted(self, namespace: str) -> list[Obj]:
        if namespace == SYSTEM_NAMESPACE:
            return []
        return copies_of(self._bundles[SYSTEM_NAMESPACE].values(), self._trusted(), namespace)

    async def _ensure(self, wanted: Obj, binding: Obj) -> None:
        key = key_of(wanted)
        held = self._world.tracker.informer(CONFIG_MAP).get(key)
        if held is not None and not is_copy(held):
            raise PartFailed(f'There is an existing ConfigMap "{key.name}" that we do not own.')
        made = brought_up_to_date(held, wanted, binding)
        if held is None:
            await answered(self._world.create(CONFIG_MAP, made))
        elif made is not held:
            await answered(self._world.write_spec(CONFIG_MAP, made))

    def _announce(self, key: Key, obj: Obj | None) -> None:
        """Has the SinkBindings looked at that a changed bundle concerns: all, or those of its namespace."""
        before = self._bundles[key.namespace].pop(key.name, None)
        if obj is not None and is_bundle(obj):
            self._bundles[key.namespace][key.name] = obj
        elif before is None:
            return
        for one in self._world.tracker.informer(SINK_BINDING).all():
            if key.namespace in (SYSTEM_NAMESPACE, key_of(one).namespace):
                self._enqueue((SINK_BINDING.kind, key_of(one)))
