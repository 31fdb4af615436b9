"""Where commands send events to, and with which credentials: the Broker or Channel of the flags, its address as this
machine reaches it, an API key or token, and certificates.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from penstock.kube.kinds import Obj
    from penstock.operations.cluster_api import ClusterApi, Resource
    from penstock.operations.installation import Installation
    from penstock.operations.sending import SendingAddress, SendingCredentials

INGRESS_VARIABLE = "PENSTOCK_INGRESS"
TOKEN_VARIABLE = "PENSTOCK_SEND_TOKEN"  # noqa: S105  # the name of a variable


def target_of(api: ClusterApi, namespace: str, broker: str | None, channel: str | None) -> tuple[Resource, Obj]:
    """The Broker or Channel of the flags, by default the Broker `default`. Raises UserError."""
    from penstock.operations.cluster_api import BROKERS, CHANNELS, IN_MEMORY_CHANNELS

    if broker and channel:
        raise UserError("--broker and --channel cannot be combined.", exit_code=2)
    if channel:
        for resource in (CHANNELS, IN_MEMORY_CHANNELS):
            found = api.read(resource.path(namespace, channel))
            if found is not None:
                return resource, found
        raise UserError(
            f"Channel {namespace}/{channel} does not exist.", _existing(api, CHANNELS, namespace, "--channel")
        )
    name = broker or "default"
    found = api.read(BROKERS.path(namespace, name))
    if found is None:
        remedy = _existing(api, BROKERS, namespace, "--broker") or f"Create it: penstock create broker {name}"
        raise UserError(f"Broker {namespace}/{name} does not exist.", remedy)
    return BROKERS, found


def address_of(installation: Installation, resource: Resource, obj: Obj) -> SendingAddress:
    """The address to send events to. Raises UserError if there is none yet."""
    from penstock.operations.sending import address_in

    metadata, address = obj["metadata"], address_in(obj)
    if base := _ingress(installation, address.is_secure):
        folder = "" if resource.kind == "Broker" else "/channels"
        address = replace(address, url=f"{base}{folder}/{metadata['namespace']}/{metadata['name']}")
    if not address.url:
        raise UserError(
            f"{resource.kind} {metadata['namespace']}/{metadata['name']} has no address yet.", "Check that it is Ready."
        )
    return address


def _ingress(installation: Installation, is_secure: bool) -> str:
    """Base URL of the ingress: from the variable, or of a stack on this machine; empty if neither."""
    if given := os.environ.get(INGRESS_VARIABLE):
        return given.rstrip("/")
    if installation.settings is None:
        return ""
    return installation.settings.tls_ingress_url if is_secure else installation.settings.ingress_url


def _existing(api: ClusterApi, resource: Resource, namespace: str, flag: str) -> str:
    names = sorted(obj["metadata"]["name"] for obj in api.all(resource, namespace))
    return f"Existing ones: {', '.join(f'{flag} {name}' for name in names[:8])}" if names else ""


TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN|@FILE",
        envvar=TOKEN_VARIABLE,
        help="API key or token to send with; @FILE reads it. Other users of this machine can see command lines.",
    ),
]
ServiceAccountOption = Annotated[
    str | None,
    typer.Option("--service-account", help="Send with a new token of this ServiceAccount of the namespace."),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option("--ca-file", help="File of CA certificates to trust for https, besides the system's."),
]


def credentials_for(
    address: SendingAddress, token: str, ca_file: Path | None, authority: Path | None = None
) -> SendingCredentials:
    """The credentials to send with. Raises UserError for an invalid certificate."""
    from penstock.operations.sending import credentials_to

    files = [file for file in (ca_file, authority) if file is not None] if address.is_secure else []
    try:
        return credentials_to(address, token, *(_read(file, "certificates") for file in files))
    except ValueError as error:
        remedy = f"--ca-file {ca_file} must contain certificates in PEM." if ca_file is not None else ""
        raise UserError(f"Cannot send to {address.url}: {error}.", remedy, exit_code=2) from None


def given_token(text: str | None) -> str:
    """The token of a flag or variable, which may name a file. Raises UserError for an invalid one."""
    if not text:
        return ""
    token = _read(Path(text[1:]), "token").strip() if text.startswith("@") else text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError("Invalid --token: a token is one word of printable ASCII characters.", exit_code=2)
    return token


def token_of(api: ClusterApi, account: str, target: Obj, address: SendingAddress) -> str:
    """A token of the ServiceAccount for the Broker or Channel. Raises UserError."""
    metadata = target["metadata"]
    if not address.audience:
        raise UserError(
            f"{metadata['namespace']}/{metadata['name']} does not accept tokens: it has no audience.",
            "Send without --service-account, or set authentication-oidc: enabled in config-features.",
            exit_code=2,
        )
    return api.token(metadata["namespace"], account, address.audience)


def _read(file: Path, what: str) -> str:
    try:
        return file.expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UserError(f"The {what} in {file} cannot be read: {reason}.", exit_code=2) from None
