"""The webhook's HTTP: one path per question, each a POST of a review. What is no review is answered 400."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from penstock.kube.kinds import Obj
from penstock.resources.registry import CONVERSIONS
from penstock.webhook.judge import Judge
from penstock.webhook.reviews import MalformedReview, converted, read

DEFAULTING = "/defaulting"
VALIDATION = "/resource-validation"
CONFIG_VALIDATION = "/config-validation"
CONVERSION = "/resource-conversion"

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A review holds an object twice, as it was and as it shall be; the API takes objects of 3 MiB."""
BODY_SECONDS = 10.0
"""The API server gives up after as long; who is slower is not it."""

Answer = Callable[[object], Obj]


def application(judge: Judge) -> Starlette:
    """The application. Judging happens in threads, so that one long filter does not hold up other requests."""
    answers: dict[str, Answer] = {
        DEFAULTING: lambda document: judge.default(read(document)),
        VALIDATION: lambda document: judge.validate(read(document)),
        CONFIG_VALIDATION: lambda document: judge.validate_features(read(document)),
        CONVERSION: lambda document: converted(document, CONVERSIONS),
    }
    return Starlette(routes=[Route(path, _endpoint(answer), methods=["POST"]) for path, answer in answers.items()])


def _endpoint(answer: Answer) -> Callable[[Request], object]:
    async def endpoint(request: Request) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request)
        except TimeoutError:
            return PlainTextResponse("the body did not arrive in time\n", 408)
        if body is None:
            return PlainTextResponse(f"the body has more than {MAX_BODY_BYTES} bytes\n", 413)
        try:
            return JSONResponse(await asyncio.to_thread(_answered, answer, body))
        except MalformedReview as error:
            return PlainTextResponse(f"{error}\n", 400)

    return endpoint


def _answered(answer: Answer, body: bytes) -> Obj:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    return answer(document)


async def _body(request: Request) -> bytes | None:
    """The whole body; None if there is too much of it."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                return None
    except ClientDisconnect:
        return b""
    return bytes(body)
