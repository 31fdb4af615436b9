"""What an experiment is: one kind of fault, tried on a stack of its own and followed by the check of the books."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.chaos.changes import Pace
from tools.chaos.checker import Lost
from tools.chaos.routes import Route

if TYPE_CHECKING:
    from tools.chaos.run import Run


class Experiment(ABC):
    """One kind of fault."""

    name: str
    what: str
    """What is done, in one sentence, for `--help` and the report."""
    settings = ""
    """The penstock.toml of the stack."""
    routes: tuple[Route, ...] = ()
    """What there is beside the steady routes."""
    pace = Pace()
    """How fast other routes change meanwhile."""
    mounts = False
    """Whether file systems are mounted for it."""

    def missing(self) -> str | None:
        """What this machine lacks for it, and how to get that; None where it lacks nothing."""
        return None

    @contextlib.contextmanager
    def surroundings(self, data: Path) -> Iterator[Mapping[str, str]]:
        """Within, the stack runs: what its data folder lies on. Gives what its environment has in addition."""
        yield {}

    def reported(self, run: Run, lost: Iterable[Lost]) -> set[Lost]:
        """Which of the events that did not arrive the stack has reported as lost, where that may happen at all."""
        return set()

    @abstractmethod
    async def strike(self, run: Run) -> None:
        """Does it, while load and route changes go on. Whatever is wrong becomes a problem of the run."""
