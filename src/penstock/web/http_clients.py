"""HTTP clients for addresses that users name: they connect directly, and limit the size of responses.

They use no proxy and follow no redirects. They accept no Content-Encoding, so that a response cannot expand in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyreqwest.client import ClientBuilder
from pyreqwest.request import RequestBuilder


class ResponseTooLarge(Exception):
    """The response has more bytes than the limit; the text says how many are allowed."""


@dataclass(frozen=True)
class HttpResponse:
    """A response as received."""

    status: int
    headers: list[tuple[str, str]]
    """Names are in lower case."""
    body: bytes


def client_builder(user_agent: str) -> ClientBuilder:
    """A builder with these settings; the caller adds timeouts and certificates."""
    builder = ClientBuilder().no_proxy().user_agent(user_agent).follow_redirects(False)
    return builder.gzip(False).deflate(False).brotli(False).zstd(False)


async def response_to(request: RequestBuilder, max_bytes: int, *, cut: bool = False) -> HttpResponse:
    """Sends the request. A response over the limit is cut if `cut` is set; otherwise it raises ResponseTooLarge."""
    parts, size = [], 0
    async with request.build_streamed() as response:
        while size <= max_bytes and (chunk := await response.body_reader.read_chunk()) is not None:
            parts.append(bytes(chunk))
            size += len(chunk)
        if size > max_bytes and not cut:
            raise ResponseTooLarge(f"the response has more than {max_bytes} bytes")
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        return HttpResponse(response.status, headers, b"".join(parts)[:max_bytes])
