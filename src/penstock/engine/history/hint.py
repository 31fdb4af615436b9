"""How far the tables are, as the writer noted it: for whoever decides when to write, without reading a table."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from penstock.history.schema.columns import TableName

HINT = Path("run", "history.json")
"""Where in the data folder it is noted how far the tables are: a hint about when to write, never about what."""


@dataclass
class Hint:
    """What the keeper has to know without reading a table."""

    positions: dict[TableName, dict[int, int]] = field(default_factory=dict)
    written: float = 0.0
    """Unix time of the last run."""
    vacuumed: float = 0.0

    @classmethod
    def read(cls, data_dir: Path) -> Hint:
        """The last note; an empty one where there is none that can be read."""
        try:
            told = json.loads((data_dir / HINT).read_bytes())
            positions = {name: {int(p): int(at) for p, at in of.items()} for name, of in told["positions"].items()}
            return cls(positions, float(told["written"]), float(told["vacuumed"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def write(self, data_dir: Path) -> None:
        """Notes it."""
        path = data_dir / HINT
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.new")
        draft.write_text(json.dumps(self.__dict__))
        draft.replace(path)
