"""When events are refused because a disk is nearly full."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from penstock.ingress.storage_checks import DiskWatch

MIB = 2**20
DATA, KAFKA = Path("/data"), Path("/data/kafka")


def test_the_fullest_of_the_disks_counts_and_is_named() -> None:
    free = {DATA: 900 * MIB, KAFKA: 900 * MIB}
    watch = DiskWatch([KAFKA, DATA], 512, free.__getitem__)
    watch.check()
    assert not watch.full
    free[KAFKA] = 511 * MIB
    with capture_logs() as logged:
        watch.check()
    assert watch.full
    assert [(one["folder"], one["free_mib"]) for one in logged] == [(str(KAFKA), 511)]
    free[KAFKA] = 512 * MIB
    watch.check()
    assert not watch.full
    free[DATA] = 0
    watch.check()
    assert watch.full


def test_a_limit_of_zero_asks_for_no_room() -> None:
    watch = DiskWatch([DATA], 0, lambda _: 0)
    watch.check()
    assert not watch.full


def test_a_disk_that_cannot_be_asked_changes_nothing() -> None:
    free = {DATA: 0}

    def ask(folder: Path) -> int:
        if folder not in free:
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        return free[folder]

    watch = DiskWatch([DATA], 512, ask)
    watch.check()
    free.clear()
    with capture_logs() as logged:
        watch.check()
    assert watch.full
    assert logged[0]["folder"] == str(DATA)
