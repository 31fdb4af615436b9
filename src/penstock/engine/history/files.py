"""How far the tables are, as the writer noted it: for whoever decides when to write, without reading a table."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from penstock.history.reader.tables import HOW_TO_INSTALL
from penstock.history.schema.columns import TableName
from penstock.runtime.errors import UserError
from penstock.settings import Settings

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


# A file in the data folder that asks for everything to be written now: anybody may make it who may write there.

REQUEST = Path("run", "write-history")


def is_asked(settings: Settings) -> bool:
    """Whether somebody asks."""
    return (settings.data_dir / REQUEST).exists()


def ask(settings: Settings) -> None:
    """Asks: a writer is started, or one that runs rests no more."""
    (settings.data_dir / REQUEST).touch()


def take_up(settings: Settings) -> None:
    """From now on whoever asks, asks anew."""
    (settings.data_dir / REQUEST).unlink(missing_ok=True)


# Whether this installation can keep a history: what it needs is an extra of the package, which may be missing.

PACKAGES = ("deltalake", "duckdb", "pyarrow")


def checked(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings as they can be followed, and what a person should know of that.

    Raises UserError where a history was asked for: one that is kept by default only is done without.
    """
    lacking = [name for name in PACKAGES if find_spec(name) is None] if settings.history else []
    if not lacking:
        return settings, []
    what = f"The history is disabled: {', '.join(lacking)} not installed."
    if "history" in settings.model_fields_set:
        raise UserError(what, f"{HOW_TO_INSTALL}. Or set history=false.")
    return settings.model_copy(update={"history": False}), [f"{what} {HOW_TO_INSTALL}"]
