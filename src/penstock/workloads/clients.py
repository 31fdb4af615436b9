"""The HTTP client of the node and its actors."""

from __future__ import annotations

from pyreqwest.client import ClientBuilder

USER_AGENT = "penstock-workloads"


def client_builder() -> ClientBuilder:
    """A client that goes straight where it is told, and follows no one elsewhere."""
    return ClientBuilder().no_proxy().user_agent(USER_AGENT).follow_redirects(False)
