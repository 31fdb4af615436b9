"""When a component that died is started again, and when it is given up. Pure: time is handed in."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.runtime.rate_limit import pause_after


@dataclass(frozen=True)
class Restart:
    """Start it again after `delay` seconds; 0 is at once."""

    delay: float


@dataclass(frozen=True)
class GiveUp:
    """It keeps dying."""

    deaths: int


@dataclass(frozen=True)
class Patience:
    """How much dying is borne."""

    first_delay: float = 0.25
    """Before the second start in a row."""
    longest_delay: float = 8.0
    deaths_before_ready: int = 3
    """Deaths in a row without ever being ready: something is wrong that a new start will not change."""
    deaths_after_ready: int = 6
    """Deaths in a row of a component that comes up each time."""
    pause_when_given_up: float = 30.0
    """Before one that keeps dying is tried again, where the others go on without it."""
    stable_seconds: float = 60.0
    """A life of this length makes the deaths before it forgotten."""


@dataclass
class Deaths:
    """The recent deaths of one component."""

    patience: Patience = field(default_factory=Patience)
    _in_a_row: int = 0
    _never_ready: int = 0

    def count(self, lived: float, was_ready: bool) -> Restart | GiveUp:
        """What to do after a life of `lived` seconds."""
        if was_ready and lived >= self.patience.stable_seconds:
            self._in_a_row = 0
        self._in_a_row += 1
        self._never_ready = 0 if was_ready else self._never_ready + 1
        if self._never_ready >= self.patience.deaths_before_ready or self._in_a_row >= self.patience.deaths_after_ready:
            return GiveUp(self._in_a_row)
        return Restart(self._delay())

    @property
    def one_try_left(self) -> bool:
        """Whether it is given up if it is not ready the next time either."""
        return self._never_ready == self.patience.deaths_before_ready - 1

    def _delay(self) -> float:
        """None after a first death, which is an accident; then longer each time."""
        if self._in_a_row == 1:
            return 0.0
        return pause_after(self._in_a_row - 1, self.patience.first_delay, self.patience.longest_delay)


# What a component's last words mean for the user. Pure: lines in, advice out.

ADVICE = (
    (("No space left on device", "Disk quota exceeded"), "The disk is full: make room, or choose another --data-dir."),
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


def remedy(lines: list[str]) -> str | None:
    """Advice for the newest line that means something; None if none does."""
    for line in reversed(lines):
        for signs, advice in ADVICE:
            if any(sign in line for sign in signs):
                return advice
    return None
