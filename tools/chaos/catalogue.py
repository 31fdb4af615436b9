"""All experiments by name."""

from __future__ import annotations

from tools.chaos.clocks import PARTS as CLOCKS
from tools.chaos.clocks import ClockSteps
from tools.chaos.experiments import Experiment
from tools.chaos.freezes import FROZEN_SECONDS, PARTS, Freeze
from tools.chaos.full_disks import FullDisk
from tools.chaos.power_loss import PowerLoss
from tools.chaos.retention import Retention


def experiments(frozen: tuple[float, ...] = FROZEN_SECONDS) -> dict[str, Experiment]:
    """What `--faults` knows."""
    every: list[Experiment] = [
        *(Freeze(name, frozen) for name in PARTS),
        FullDisk("full-disk-kafka", "kafka", 700, events=True),
        FullDisk("full-disk-data", "", 1500, events=True),
        FullDisk("full-disk-spark", "spark", 200, events=False),
        PowerLoss(),
        *(ClockSteps(name) for name in CLOCKS),
        Retention("retention", history=True),
        Retention("retention-no-history", history=False),
    ]
    return {one.name: one for one in every}
