"""What a run has shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.chaos.checker import Findings
from tools.chaos.memory import Samples
from tools.chaos.plan import Fault

SOAK = "soak"
"""The name of the experiment that lasts for hours."""


@dataclass(frozen=True)
class Outcome:
    """A fault of a process and what came of it."""

    fault: Fault
    at: float
    """Seconds since the load began."""
    recovery: float | None
    """Seconds to the first delivery of an event accepted after it; None where the next fault was not to wait for it."""
    silence: float | None
    """The longest time without any delivery until then, in seconds."""
    note: str = ""


@dataclass(frozen=True)
class Step:
    """A part of an experiment and what came of it."""

    what: str
    at: float
    """Seconds since the load began."""
    recovery: float | None
    """Seconds from the end of the fault to the first delivery of an event accepted after it; None: there was none."""
    silence: float | None
    """The longest time without any delivery from the beginning of the fault on, in seconds."""
    seen: str = ""
    """What the stack said and did meanwhile."""


@dataclass
class Result:
    """Everything that was seen."""

    seed: int
    rate: float
    faults: int
    experiment: str = "processes"
    seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    reported: int = 0
    """Events that did not arrive, and that the stack has reported as lost."""
    accepted: int = 0
    resent: int = 0
    deliveries: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    changes: list[float] = field(default_factory=list)
    """Seconds from each creation of a route or change of a filter to Ready."""
    changed: int = 0
    """Route changes of all kinds."""
    replays: int = 0
    memory: Samples = field(default_factory=dict)
    """Of the processes, where the experiment looks."""
    gave_up: int = 0
    """How often the supervisor ended by itself, and was started again."""
    problems: list[str] = field(default_factory=list)
    """What keeps the run from counting, beside what the books show."""
    trails: dict[str, list[str]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings.broken and not self.problems and len(self.outcomes) == self.faults
