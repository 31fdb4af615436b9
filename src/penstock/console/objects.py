"""The objects of the map, read from the API once for all pages that ask within a moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import ROUTES, TARGETS, ClusterApi

FRESH_SECONDS = 2.0
MOST = 50


class Objects(NamedTuple):
    """What there is."""

    targets: list[Obj]
    """Brokers and channels."""
    routes: list[Obj]
    """Triggers and Subscriptions."""


class RecentObjects:
    """Caches the last response of the API for a moment: listing thousands of routes takes a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[ClusterApi, tuple[float, Objects]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, api: ClusterApi) -> Objects:
        """The objects that the owner of a connection may see. Raises Problem."""
        with self._lock:
            at, objects = self._kept.get(api, (float("-inf"), Objects([], [])))
        if self._clock() - at < FRESH_SECONDS:
            return objects
        objects = Objects(*([obj for kind in kinds for obj in api.all(kind)] for kinds in (TARGETS, ROUTES)))
        with self._lock:
            self._kept[api] = (self._clock(), objects)
            self._kept.move_to_end(api)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return objects

    def forget(self) -> None:
        """Something was changed: the next answer is a new one."""
        with self._lock:
            self._kept.clear()
