"""A follower of the routes as a program, so that a test can freeze it. Argument: settings as JSON.

Prints the version and the targets of each snapshot in a line.
"""

import json
import sys
import threading

from penstock.contract.snapshot import Snapshot
from penstock.kafka.table import SnapshotFollower
from penstock.settings import Settings


def show(snapshot: Snapshot) -> None:
    print(snapshot.version, *sorted(snapshot.targets), flush=True)


ended = threading.Event()
SnapshotFollower(Settings(**json.loads(sys.argv[1])), show, lambda error: ended.set()).start()
ended.wait()
