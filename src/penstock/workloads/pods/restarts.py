"""When a container that has ended is started again: as the Pod's restartPolicy says, later each time."""

from __future__ import annotations

from penstock.retry import pause_after

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0
FORGIVEN_SECONDS = 600.0
"""A container that ran this long before it ended is started again as if it had never failed."""


def restarts(policy: str, exit_code: int) -> bool:
    """Whether a container that ended with `exit_code` is started again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def back_off(failures: int) -> float:
    """Seconds to wait before the next start, after `failures` ends in a row."""
    return pause_after(failures, FIRST_SECONDS, LONGEST_SECONDS)


def waiting_message(seconds: float, container: str, pod: str, namespace: str, uid: str) -> str:
    """What kubectl shows while the container waits."""
    return f"back-off {seconds:.0f}s restarting failed container={container} pod={pod}_{namespace}({uid})"


def event_message(container: str, pod: str, namespace: str, uid: str) -> str:
    """What the Event says that comes with it."""
    return f"Back-off restarting failed container {container} in pod {pod}_{namespace}({uid})"
