"""Where a stack speaks of a full disk, and what is said where none can be made."""

from __future__ import annotations

import pytest

from tools.chaos.__main__ import main
from tools.chaos.full_disks import last_sign


def test_a_line_about_a_full_disk_is_found() -> None:
    assert last_sign("a\nkafka: No space left on device\nb") == "kafka: No space left on device"
    assert last_sign("data in /build/full-disk-kafka/data") is None


def test_what_a_fault_lacks_is_said_and_the_others_are_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["chaos", "--faults", "full-disk-kafka,full-disk-spark"])
    assert main() == 2
    said = capsys.readouterr().err
    assert "full-disk-kafka cannot be tried here: mount, umount, mkfs.ext4, unshare is not installed" in said
    assert "full-disk-spark cannot be tried here" in said
