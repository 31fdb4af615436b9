"""`penstock secrets`: the Secrets on disk and the key that they are encrypted with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from penstock.cli.options import SetOption, StartDataDirOption

app = typer.Typer(help="Secrets on disk, and the key that they are encrypted with.", no_args_is_help=True)


@app.callback()
def secrets() -> None:
    """Secrets on disk, and the key that they are encrypted with."""


@app.command("reencrypt")
def reencrypt(*, data_dir: StartDataDirOption = None, assignments: SetOption = None) -> None:
    """Encrypt every Secret in the data folder with the first key of secrets_key_file, or of secrets_key_command.

    The API must be stopped; each start of it does the same.
    """
    from penstock.apiserver.store.encryption import WrongKey, load_keyring
    from penstock.apiserver.store.encryption import reencrypt as encrypt_anew
    from penstock.cli.terminal import problems
    from penstock.operations.settings_sources import load
    from penstock.runtime.errors import UserError

    with problems():
        settings = load(assignments, data_dir=data_dir)
        database = settings.data_dir / "api.db"
        if not database.exists():
            raise UserError(
                f"No API has been started on the data folder {settings.data_dir} yet.", "Start it: penstock dev"
            )
        try:
            keyring = load_keyring(settings.secrets_key_file, settings.secrets_key_command, settings.data_dir / "pki")
            if keyring.current is None:
                advice = "Set secrets_key_file or secrets_key_command."
                raise UserError("There is no key to encrypt Secrets with.", advice)
            with api_stopped(settings.data_dir):
                count = encrypt_anew(database, keyring)
        except WrongKey as error:
            raise UserError(str(error)) from None
    typer.echo(f"{count} Secret{'' if count == 1 else 's'} re-encrypted with the key {keyring.current}.")


@contextmanager
def api_stopped(data_dir: Path) -> Iterator[None]:
    """Holds the lock of the API: a running one could not decrypt with a key that it has not loaded."""
    from penstock.engine.datadir import exclusive
    from penstock.runtime.errors import UserError

    with ExitStack() as held:
        try:
            held.enter_context(exclusive(data_dir, "apiserver"))
        except UserError:
            raise UserError(
                f"The API of the data folder {data_dir} is running.",
                "Stop it first. Or set the new key in secrets_key_file and restart it: each start re-encrypts Secrets.",
            ) from None
        yield
