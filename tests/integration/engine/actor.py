"""A component for the supervisor's tests: it plays one part, given by name, as a real process.

`python actor.py PART FOLDER NAME [--notify-fd N --life-fd N]`; it appends what it does to `FOLDER/journal`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from penstock.runtime.lifecycle import Lifecycle


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--notify-fd", type=int)
    parser.add_argument("--life-fd", type=int)
    arguments = parser.parse_args()
    lifecycle = Lifecycle(arguments.notify_fd)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def note(what: str) -> None:
        with (arguments.folder / "journal").open("a") as journal:
            journal.write(f"{what} {arguments.name} {os.getpid()}\n")

    def watch_life() -> None:
        while os.read(arguments.life_fd, 1):
            note("released")
        os._exit(3)

    if arguments.life_fd is not None:
        threading.Thread(target=watch_life, daemon=True).start()
    note("started")
    match arguments.part:
        case "fails":
            print("the disk said: No space left on device", flush=True)
            lifecycle.fail("it cannot write")
            sys.exit(1)
        case "slow":
            time.sleep(1)
        case "second":
            while (arguments.folder / "journal").read_text().count("started ") < 2:
                time.sleep(0.02)
        case "silent":
            stop.wait()
            return
        case "short-lived":
            lifecycle.ready()
            sys.exit(4)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "parent":
            sleeper = subprocess.Popen(["sleep", "300"])
            note(f"child {sleeper.pid}")
    note("ready")
    lifecycle.ready(address=f"there/{arguments.name}")
    stop.wait()
    note("stopped")


if __name__ == "__main__":
    main()
