"""As whom a command sends, and whom it believes, by its flags: an API key or token, and files of certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.problem import Problem

if TYPE_CHECKING:
    from penstock.kube.kinds import Obj
    from penstock.operations.cluster_api import ClusterApi
    from penstock.operations.sending import SendingAddress, SendingCredentials

TOKEN_VARIABLE = "PENSTOCK_SEND_TOKEN"  # noqa: S105  # the name of a variable

TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN|@FILE",
        envvar=TOKEN_VARIABLE,
        help="API key or token to send with; @FILE reads it. Others of this machine see command lines.",
    ),
]
ServiceAccountOption = Annotated[
    str | None,
    typer.Option("--service-account", help="Send with a token of this ServiceAccount of the namespace, made for it."),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option("--ca-file", help="File of certificates to believe an https server by, beside the system's."),
]


def credentials_for(
    address: SendingAddress, token: str, ca_file: Path | None, authority: Path | None = None
) -> SendingCredentials:
    """What to send to the address with. Raises Problem where a certificate cannot be used."""
    from penstock.operations.sending import credentials_to

    files = [file for file in (ca_file, authority) if file is not None] if address.is_secure else []
    try:
        return credentials_to(address, token, *(_read(file, "certificates") for file in files))
    except ValueError as error:
        remedy = f"--ca-file {ca_file} has to hold certificates in PEM." if ca_file is not None else ""
        raise Problem(f"{address.url} cannot be sent to: {error}.", remedy, exit_code=2) from None


def given_token(text: str | None) -> str:
    """The token of a flag or variable, which may name a file. Raises Problem where it cannot be one."""
    if not text:
        return ""
    token = _read(Path(text[1:]), "token").strip() if text.startswith("@") else text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Problem(
            "The value of --token is not a token: a token is one word of letters, digits and signs.", exit_code=2
        )
    return token


def token_of(api: ClusterApi, account: str, target: Obj, address: SendingAddress) -> str:
    """A token of the ServiceAccount for the Broker or Channel. Raises Problem."""
    metadata = target["metadata"]
    if not address.audience:
        raise Problem(
            f"{metadata['namespace']}/{metadata['name']} requires no token: it has no audience.",
            "Send without --service-account, or set authentication-oidc: enabled in config-features.",
            exit_code=2,
        )
    return api.token(metadata["namespace"], account, address.audience)


def _read(file: Path, what: str) -> str:
    try:
        return file.expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Problem(f"The {what} of {file} cannot be read: {reason}.", exit_code=2) from None
