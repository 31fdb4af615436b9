"""`penstock kubeconfig`: makes a kubeconfig with a token for a user or ServiceAccount, and revokes tokens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import DataDirOption


def kubeconfig(
    *,
    name: Annotated[
        str | None,
        typer.Option("--as", help="A user, or system:serviceaccount:NAMESPACE:NAME. (default: the administrator)"),
    ] = None,
    service_account: Annotated[
        str | None, typer.Option("--service-account", metavar="NAMESPACE/NAME", help="For a ServiceAccount.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="A group that the user is in. May be repeated.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Default namespace. (default: the account's own, or default)")
    ] = None,
    hours: Annotated[float, typer.Option(min=1 / 6, max=2**32 / 3600, help="How long the token is valid.")] = 24.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, readable by its owner only. (default: standard output)"),
    ] = None,
    revoke: Annotated[
        str | None,
        typer.Option("--revoke", metavar="NAME", help="Revoke all tokens of this user or ServiceAccount."),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a kubeconfig for a user or ServiceAccount; Roles and RoleBindings grant the permissions."""
    from penstock.apiserver.access.identity import account_of
    from penstock.cli.terminal import problems
    from penstock.operations.installation import folder_of
    from penstock.runtime.errors import UserError
    from penstock.runtime.files import write_private

    with problems():
        root = folder_of(data_dir)
        if not (root / "kubeconfig").exists():
            raise UserError(f"No API has been started on the data folder {root} yet.", "Start it: penstock dev")
        if revoke is not None:
            _revoke(root, revoke)
            return
        account = _account(service_account) if service_account else account_of(name or "")
        if name and service_account:
            raise UserError("--as and --service-account cannot be combined.", exit_code=2)
        if groups and (account or not name):
            raise UserError("--group requires a user: --as NAME.", exit_code=2)
        seconds = round(hours * 3600)
        if account:
            content = _for_account(root, *account, namespace or account[0], seconds)
        elif name:
            content = _for_user(root, name, groups or [], namespace or "default", seconds)
        else:
            content = (root / "kubeconfig").read_bytes()
        if output is None:
            typer.echo(content.decode(), nl=False)
        else:
            try:
                write_private(output.absolute(), content)
            except (OSError, ValueError) as error:
                raise UserError(f"{output} cannot be written: {error}.") from None


def _revoke(root: Path, user: str) -> None:
    from penstock.apiserver.access import identity
    from penstock.apiserver.access.identity import COMPONENTS
    from penstock.runtime.errors import UserError

    if user in COMPONENTS:
        advice = f"Stop the stack, remove {root / 'pki' / 'tokens.json'} and start it: each component gets a new token."
        raise UserError(f"The token of {user} cannot be revoked here: it is a component of the stack.", advice)
    identity.revoke_user_tokens(root / "pki", user, time.time())
    typer.echo(f"All tokens issued to {user} have been revoked.")


def _account(text: str) -> tuple[str, str]:
    from penstock.runtime.errors import UserError

    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UserError(f"Invalid --service-account {text}: write NAMESPACE/NAME.", exit_code=2)
    return namespace, name


def _for_account(root: Path, namespace: str, name: str, context_namespace: str, seconds: int) -> bytes:
    """The API issues the token, which becomes invalid when the ServiceAccount is deleted."""
    from penstock.apiserver.access import identity
    from penstock.apiserver.access import kubeconfig as kubeconfig_files
    from penstock.kube.client import Client
    from penstock.kube.config import ConfigError, read_config
    from penstock.kube.errors import KubeError, Unavailable
    from penstock.kube.kinds import Key
    from penstock.runtime.errors import UserError

    original = root / "kubeconfig"
    try:
        with Client(read_config(original)) as client:
            issued = client.token(Key(namespace, name), {"expirationSeconds": seconds, "audiences": []})
    except ConfigError as error:
        raise UserError(f"The kubeconfig {original} cannot be used: {error}.") from None
    except Unavailable as error:
        what = f"The API of the data folder {root} is unreachable: {error}."
        raise UserError(what, "Start it: penstock dev") from None
    except KubeError as error:
        raise UserError(f"The API issued no token for ServiceAccount {namespace}/{name}: {error}.") from None
    user = identity.account_user(namespace, name)
    return kubeconfig_files.kubeconfig_for(
        original, user=user, token=str(issued.get("token") or ""), namespace=context_namespace
    )


def _for_user(root: Path, name: str, groups: list[str], namespace: str, seconds: int) -> bytes:
    """Signs the token with the key in the data folder, whose owner is the administrator; the API is not needed."""
    from penstock.apiserver.access import identity
    from penstock.apiserver.access import kubeconfig as kubeconfig_files
    from penstock.apiserver.access.signing_keys import key_files, load_signer
    from penstock.runtime.errors import UserError

    if not key_files(root / "pki"):
        raise UserError(
            f"The data folder {root} has no signing key for tokens yet.", "Start its stack once: penstock dev"
        )
    token = identity.issue_user_token(name, groups, seconds=seconds, signer=load_signer(root / "pki"), now=time.time())
    return kubeconfig_files.kubeconfig_for(root / "kubeconfig", user=name, token=token, namespace=namespace)
