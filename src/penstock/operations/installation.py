"""Which penstock a command uses: a stack on this machine, or an installation elsewhere.

In this order: `--data-dir`, `--kubeconfig`, the variable PENSTOCK_URL (with PENSTOCK_TOKEN and PENSTOCK_CA), a data
folder that the settings name, the folder `.penstock` here, and the only running stack of this user. If several stacks
run, or none, the error says how to choose.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.operations.cluster_api import ClusterApi
    from penstock.settings import Settings


@dataclass(frozen=True)
class Installation:
    """An installation of penstock, and how to reach it."""

    where: str
    """What messages call it."""
    kubeconfig: Path | None = None
    """Kubeconfig of its API; without one, `url` is used."""
    url: str = ""
    token: str = ""
    authority: Path | None = None
    """File with the CA certificates to verify `url` with, instead of the system's."""
    root: Path | None = None
    """The data folder of a stack on this machine."""
    settings: Settings | None = None
    """The settings of a stack on this machine."""

    def api(self) -> ClusterApi:
        """Its Kubernetes API."""
        from penstock.operations.cluster_api import ClusterApi

        return ClusterApi(self)

    def kafka_settings(self, command: str) -> Settings:
        """Settings to reach its Kafka with. Raises UserError if its address is unknown."""
        if self.settings is not None:
            return self.settings
        from penstock.operations.settings_sources import load

        settings = load()
        if settings.kafka is None:
            raise UserError(
                f"`{command}` needs the address of the Kafka of {self.where}.",
                "Set PENSTOCK_KAFKA=HOST:PORT,… (and PENSTOCK_KAFKA_CONF for TLS and SASL).",
                exit_code=2,
            )
        return settings


def find(
    data_dir: Path | None = None, kubeconfig: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Installation:
    """The chosen installation. Raises UserError if there is none, or the choice is ambiguous."""
    if data_dir is not None and kubeconfig is not None:
        raise UserError("--data-dir and --kubeconfig cannot be combined.", exit_code=2)
    if data_dir is not None:
        return of_stack(data_dir.expanduser().absolute())
    if kubeconfig is not None:
        return _of_kubeconfig(kubeconfig)
    if url := environ.get("PENSTOCK_URL"):
        return _of_url(url, environ)
    return of_stack(running_folder())


def running_folder(data_dir: Path | None = None) -> Path:
    """The data folder of the chosen running stack. Raises UserError if none runs."""
    from penstock.engine import datadir, running_stacks

    chosen, named = _folder_of_settings(data_dir)
    if datadir.runs(chosen):
        return chosen
    if named:
        raise UserError(f"No stack is running on the data folder {chosen}.", _others(running_stacks.running()))
    match running_stacks.running():
        case []:
            raise UserError("No stack is running.", _others([]))
        case [only]:
            return only
        case several:
            folders = "\n".join(f"  --data-dir {folder}" for folder in several)
            raise UserError(f"Several stacks are running; choose one with:\n{folders}", exit_code=2)


def folder_of(data_dir: Path | None = None) -> Path:
    """The chosen data folder, for what needs the folder only; its stack may be stopped."""
    from penstock.engine import running_stacks

    chosen, named = _folder_of_settings(data_dir)
    if named or chosen.exists():
        return chosen
    match running_stacks.running():
        case [only]:
            return only
        case _:
            return chosen


def of_stack(root: Path) -> Installation:
    """The running stack of a data folder. Raises UserError if none is running."""
    from pydantic import ValidationError

    from penstock.engine import datadir, running_stacks
    from penstock.settings import Settings

    if datadir.read_stack(root) is None or not datadir.runs(root):
        raise UserError(f"No stack is running on the data folder {root}.", _others(running_stacks.running()))
    try:
        settings = Settings.model_validate_json((root / datadir.SETTINGS_FILE).read_bytes())
    except (OSError, ValidationError):
        raise UserError(
            f"The stack of {root} was started by another version of penstock.", "Use that version."
        ) from None
    return Installation(
        f"the stack of {root}", settings.kubeconfig or root / "kubeconfig", root=root, settings=settings
    )


def _folder_of_settings(data_dir: Path | None) -> tuple[Path, bool]:
    """The data folder of the settings, and whether a flag, variable or file sets it."""
    from penstock.operations.settings_sources import load

    settings = load(data_dir=data_dir)
    return settings.data_dir.expanduser().absolute(), "data_dir" in settings.model_fields_set


def _others(running: list[Path]) -> str:
    if running:
        return "Running: " + ", ".join(f"--data-dir {folder}" for folder in running)
    return "Start one: penstock dev. Or choose another installation: --kubeconfig FILE, or PENSTOCK_URL."


def _of_kubeconfig(path: Path) -> Installation:
    if not path.is_file():
        raise UserError(f"The kubeconfig {path} does not exist.", exit_code=2)
    return Installation(f"the installation of {path}", path)


def _of_url(url: str, environ: Mapping[str, str]) -> Installation:
    if not url.startswith(("http://", "https://")):
        raise UserError(f"Invalid PENSTOCK_URL {url}: expected the https:// address of a Kubernetes API.", exit_code=2)
    authority = environ.get("PENSTOCK_CA")
    if authority and not Path(authority).is_file():
        raise UserError(f"Invalid PENSTOCK_CA: {authority} is not a file.", exit_code=2)
    return Installation(
        url, url=url, token=environ.get("PENSTOCK_TOKEN", ""), authority=Path(authority) if authority else None
    )
