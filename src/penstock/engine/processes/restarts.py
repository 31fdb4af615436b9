"""When a crashed component is restarted, and the advice that its last log lines give. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.runtime.rate_limit import pause_after


@dataclass(frozen=True)
class Restart:
    """Restart after `delay` seconds."""

    delay: float


@dataclass(frozen=True)
class GiveUp:
    """Too many crashes."""

    crashes: int


@dataclass(frozen=True)
class RestartPolicy:
    """Limits and delays of restarts."""

    first_delay: float = 0.25
    """Delay before the second restart; the first one is immediate."""
    longest_delay: float = 8.0
    crashes_before_ready: int = 3
    """Limit of consecutive crashes without being ready: a restart will not help."""
    crashes_after_ready: int = 6
    """Limit of consecutive crashes of a component that becomes ready each time."""
    cooldown_seconds: float = 30.0
    """Delay after too many crashes, if the other components continue without it."""
    stable_seconds: float = 60.0
    """A run of this length resets the count."""


@dataclass
class CrashCounter:
    """Counts the recent crashes of a component."""

    policy: RestartPolicy = field(default_factory=RestartPolicy)
    _in_a_row: int = 0
    _never_ready: int = 0

    def count(self, seconds: float, was_ready: bool) -> Restart | GiveUp:
        """What to do after a run of `lived` seconds."""
        if was_ready and seconds >= self.policy.stable_seconds:
            self._in_a_row = 0
        self._in_a_row += 1
        self._never_ready = 0 if was_ready else self._never_ready + 1
        if self._never_ready >= self.policy.crashes_before_ready or self._in_a_row >= self.policy.crashes_after_ready:
            return GiveUp(self._in_a_row)
        return Restart(self._delay())

    @property
    def has_one_try_left(self) -> bool:
        """Whether the limit is reached if the next start fails too."""
        return self._never_ready == self.policy.crashes_before_ready - 1

    def _delay(self) -> float:
        """0 after the first crash, then increasing."""
        if self._in_a_row == 1:
            return 0.0
        return pause_after(self._in_a_row - 1, self.policy.first_delay, self.policy.longest_delay)


ADVICE = (
    (
        ("No space left on device", "Disk quota exceeded"),
        "The disk is full: free some space, or choose another --data-dir.",
    ),
    (
        ("OutOfMemoryError",),
        "It ran out of memory: raise kafka_heap_mib or spark_heap_mib (PENSTOCK_KAFKA_HEAP_MIB, …).",
    ),
    (
        ("Address already in use", "Failed to bind", "address already in use"),
        "Another program took its port: choose others with --port 0.",
    ),
    (
        ("There is insufficient memory for the Java Runtime Environment", "Cannot allocate memory"),
        "The machine has too little free memory: the stack needs about 1.6 GiB.",
    ),
    (
        ("InconsistentClusterIdException", "meta.properties"),
        "Kafka's files in the data folder do not belong together: choose another --data-dir.",
    ),
)


def advice_for(lines: list[str]) -> str | None:
    """Advice for the last known error in the lines, or None."""
    for line in reversed(lines):
        for signs, advice in ADVICE:
            if any(sign in line for sign in signs):
                return advice
    return None
