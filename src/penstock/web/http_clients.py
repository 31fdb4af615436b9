"""HTTP clients for addresses that users name: straight to that address, with answers read up to a bound.

They use no proxy, follow no redirect and ask for no Content-Encoding, so an answer needs no more memory than its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyreqwest.client import ClientBuilder
from pyreqwest.request import RequestBuilder


class AnswerTooLarge(Exception):
    """The answer has more bytes than are read; the text says how many."""


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: list[tuple[str, str]]
    """Names are in small letters."""
    body: bytes


def client_builder(user_agent: str) -> ClientBuilder:
    """The client's beginning: timeouts and certificates are the caller's."""
    straight = ClientBuilder().no_proxy().user_agent(user_agent).follow_redirects(False)
    return straight.gzip(False).deflate(False).brotli(False).zstd(False)


async def answer_of(request: RequestBuilder, most_bytes: int, *, cut: bool = False) -> Answer:
    """Sends the request. Of a longer answer `cut` gives the beginning; else it raises AnswerTooLarge."""
    parts, size = [], 0
    async with request.build_streamed() as response:
        while size <= most_bytes and (chunk := await response.body_reader.read_chunk()) is not None:
            parts.append(bytes(chunk))
            size += len(chunk)
        if size > most_bytes and not cut:
            raise AnswerTooLarge(f"the answer has more than {most_bytes} bytes")
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        return Answer(response.status, headers, b"".join(parts)[:most_bytes])
