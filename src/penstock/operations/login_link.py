"""Links that sign a user in to the console of a stack, once, as `penstock open` opens them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.settings import Settings


def login_link(settings: Settings, token: str, *, seconds: int, page: str = "") -> str:
    """A link that is valid for so long and signs in the owner of the token, to a page. Raises UserError."""
    import httpx2

    console = settings.console_url.rstrip("/")
    # The console takes changes from its own pages only; a program has to say that it means this one.
    headers = {"Authorization": f"Bearer {token}", "Origin": console}
    try:
        with httpx2.Client(timeout=30, trust_env=False, verify=_verified_by(settings)) as client:
            answer = client.post(f"{console}/login/links", data={"seconds": seconds}, headers=headers)
        said = answer.json()
    except (httpx2.HTTPError, OSError, ValueError) as error:
        raise UserError(
            f"The console does not answer at {console}: {error or type(error).__name__}.", "See: penstock status"
        ) from None
    if answer.status_code != httpx2.codes.CREATED:
        raise UserError(f"The console makes no link: {said.get('problem')}", str(said.get("remedy") or ""))
    after = "/" + page.strip("/")
    return console + str(said["path"]) + (f"?{urlencode({'to': after})}" if after != "/" else "")


def token_in(kubeconfig: Path) -> str:
    """The token of a kubeconfig's user. Raises UserError where it has none."""
    from penstock.kube.config import ConfigError, read_config

    try:
        user = read_config(kubeconfig).user
    except ConfigError as error:
        raise UserError(f"{kubeconfig} cannot be used: {error}.", exit_code=2) from None
    token = None if user is None else user.token
    if not token:
        raise UserError(f"The user of {kubeconfig} has no token in it.", "Give one: --token @FILE", exit_code=2)
    return token


def _verified_by(settings: Settings) -> SSLContext | bool:
    """What a console over TLS is believed by."""
    if not settings.tls:
        return False
    from penstock.web.tls_clients import tls_to
    from penstock.web.tls_server import trusted_by_clients

    return tls_to(trusted_by_clients(settings, datetime.now(UTC)))
