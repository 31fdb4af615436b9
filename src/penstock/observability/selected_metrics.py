"""A few metrics of the folder that the processes share, read again and again at little cost.

Thousands of routes have a hundred thousand numbers, most of which a view of the routes does not need. So what is
not asked for is passed over before its labels are read, and labels are read once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.samples import Sample

from penstock.observability.tombstones import gone_objects

LIVE, LARGEST, BUCKET = "gauge_live", "gauge_livemax", "_bucket"


class _Series(NamedTuple):
    name: str
    labels: dict[str, str]
    group: tuple[str, ...]
    """What a bucket has in common with the others of its histogram; empty for other samples."""


class SelectedMetrics:
    """The metrics of some names, as they stand at each look."""

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        """`names` are those of samples: `…_total`, `…_bucket`."""
        self._folder, self._names = folder, frozenset(names)
        self._known: dict[str, _Series | None] = {}

    def collect(self) -> list[Metric]:
        """One look: all samples, those of several processes added up."""
        found = Metric("selected", "Those that were asked for.", "untyped")
        gone, buckets = (
            gone_objects(self._folder),
            defaultdict[tuple[str, ...], list[tuple[float, _Series, float]]](list),
        )
        for key, value in self._merged().items():
            series = self._known[key]
            if series is None or _object_of(series.labels) in gone:
                continue
            if series.group:
                buckets[series.group].append((float(series.labels["le"]), series, value))
            else:
                found.samples.append(Sample(series.name, series.labels, value))
        for group in buckets.values():
            total = 0.0  # the files hold what is in each bucket; the exposition is cumulative
            for _, series, value in sorted(group, key=lambda one: one[0]):
                total += value
                found.samples.append(Sample(series.name, series.labels, total))
        return [found]

    def _merged(self) -> dict[str, float]:
        """The numbers of all processes; gauges of those that have ended do not count."""
        merged: dict[str, float] = {}
        for file in sorted(self._folder.glob("*.db")):
            if file.stem.startswith(LIVE) and not _lives(int(file.stem.rpartition("_")[2])):
                continue
            largest = file.stem.startswith(LARGEST)
            try:
                values = list(MmapedDict.read_all_values_from_file(str(file)))  # type: ignore[no-untyped-call]
            except FileNotFoundError:  # its process ended, and another reader removed the file
                continue
            for key, value, *_ in values:
                if self._series(key) is None:
                    continue
                before = merged.get(key)
                merged[key] = value if before is None else max(before, value) if largest else before + value
        return merged

    def _series(self, key: str) -> _Series | None:
        if key not in self._known:
            _, name, labels, _ = msgspec.json.decode(key)
            wanted = name in self._names
            common = tuple(f"{one}={value}" for one, value in sorted(labels.items()) if one != "le")
            group = (name, *common) if name.endswith(BUCKET) else ()
            self._known[key] = _Series(name, labels, group) if wanted else None
        return self._known[key]


def _object_of(labels: dict[str, str]) -> tuple[str, str, str]:
    return labels.get("kind", ""), labels.get("namespace", ""), labels.get("name", "")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
