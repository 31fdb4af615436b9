"""The disks that experiments fill and cut off behave as real ones do, and leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import eventually
from tools.chaos import disks

LACKING = disks.missing()
pytestmark = pytest.mark.skipif(LACKING is not None, reason=LACKING or "")

LOSE_POWER = """
import json, os, sys
from pathlib import Path
from chaos import disks
at = Path(sys.argv[1]) / "disk"
with disks.mounted(at, at.with_suffix(".ext4"), 64) as disk:
    (at / "kept").write_bytes(b"a" * 50_000)
    grown = (at / "grown").open("wb", buffering=0)
    grown.write(b"a" * 1000)
    os.sync()
    (at / "lost").write_bytes(b"b" * 50_000)
    grown.write(b"b" * 50_000)
    disk.lose_power()
    try:
        grown.write(b"c")
    except OSError as error:
        refused = error.errno
    grown.close()
    disk.unmount()
    disk.mount()
    sizes = {name: (at / name).stat().st_size if (at / name).exists() else 0 for name in ("kept", "grown", "lost")}
print(json.dumps([refused, sizes]))
"""

FILL = """
import errno, json, sys
from pathlib import Path
from chaos import disks
at = Path(sys.argv[1]) / "disk"
with disks.mounted(at, at.with_suffix(".ext4"), 64) as disk:
    disk.fill(leave_mib=10)
    nearly = disk.free() / disks.MIB
    disk.fill()
    try:
        (at / "file").write_bytes(b"a" * 100_000)
        refused = 0
    except OSError as error:
        refused = error.errno
    disk.make_room()
    (at / "file").write_bytes(b"a" * 100_000)
print(json.dumps([nearly, refused]))
"""

STAY = """
import sys, time
from pathlib import Path
from chaos import disks
at = Path(sys.argv[1]) / "disk"
with disks.mounted(at, at.with_suffix(".ext4"), 64):
    print("mounted", flush=True)
    time.sleep(600)
"""


def test_what_was_synced_outlives_a_loss_of_power_and_nothing_else(tmp_path: Path) -> None:
    refused, sizes = json.loads(run(LOSE_POWER, tmp_path))
    assert refused > 0, "nothing reaches a disk without power"
    assert sizes == {"kept": 50_000, "grown": 1000, "lost": 0}


def test_a_disk_is_filled_to_what_is_to_be_left_and_has_room_again(tmp_path: Path) -> None:
    nearly, refused = json.loads(run(FILL, tmp_path))
    assert 10 <= nearly < 11
    assert os.strerror(refused) == "No space left on device"


def test_nothing_is_mounted_any_more_when_a_run_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(command(STAY, tmp_path), stdout=subprocess.PIPE, env=environment()) as mounting:
        assert mounting.stdout is not None
        assert mounting.stdout.readline() == b"mounted\n"
        assert loops(tmp_path)
        assert str(tmp_path) not in Path("/proc/mounts").read_text(), "others do not see it"
        mounting.kill()
    eventually(lambda: not loops(tmp_path))


def run(script: str, folder: Path) -> str:
    return subprocess.run(command(script, folder), capture_output=True, text=True, check=True, env=environment()).stdout


def command(script: str, folder: Path) -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", script, str(folder)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(disks.__file__).parents[1])}


def loops(folder: Path) -> list[str]:
    """Loop devices with a file below the folder."""
    backing = [file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [name for name in backing if name.startswith(str(folder))]
