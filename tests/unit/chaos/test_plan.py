"""The sequence of faults follows from the seed, and hits everything."""

from __future__ import annotations

from collections import Counter

from tools.chaos.plan import VICTIMS, Way, sequence


def test_the_same_seed_gives_the_same_faults_and_a_longer_run_begins_with_them() -> None:
    assert sequence(7, 50) == sequence(7, 200)[:50]
    assert sequence(7, 50) != sequence(8, 50)


def test_every_victim_is_hit_equally_often_and_in_every_way() -> None:
    faults = sequence(1, 9 * len(VICTIMS))
    assert Counter(fault.victim for fault in faults) == dict.fromkeys(VICTIMS, 9)
    ways = Counter((fault.victim, fault.way) for fault in faults)
    assert ways == {(victim, way): 3 for victim in VICTIMS for way in Way}


def test_only_frozen_processes_go_on_and_some_faults_do_not_wait() -> None:
    faults = sequence(3, 200)
    assert all((fault.frozen > 0) == (fault.way is Way.FREEZE) for fault in faults)
    assert not faults[0].hurried, "there is nothing to recover from before the first"
    assert 10 < sum(fault.hurried for fault in faults) < 90
