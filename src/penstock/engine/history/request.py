"""A file in the data folder that asks for everything to be written now: anybody may make it who may write there."""

from __future__ import annotations

from pathlib import Path

from penstock.settings import Settings

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
