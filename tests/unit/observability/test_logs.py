"""Log lines are JSON, penstock's and the libraries' alike."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from penstock.observability.logs import configure_logging


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, former = root.handlers[:], root.level, structlog.get_config()
    for handler in handlers:
        root.removeHandler(handler)
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    root.handlers, root.level = handlers, level
    structlog.configure(**former)


def test_lines_of_both_kinds_have_one_shape() -> None:
    stream = io.StringIO()
    configure_logging("ingress", "info", stream=stream)
    structlog.get_logger().info("accepted", broker="shop/orders", path=Path("/x"))
    structlog.get_logger().debug("not shown")
    logging.getLogger("some.library").warning("it %s", "broke")
    own, foreign = (json.loads(line) for line in stream.getvalue().splitlines())
    assert own.pop("timestamp").endswith("Z")
    assert foreign.pop("timestamp").endswith("Z")
    assert own == {
        "event": "accepted",
        "level": "info",
        "component": "ingress",
        "broker": "shop/orders",
        "path": "/x",
    }
    assert foreign == {"event": "it broke", "level": "warning", "component": "ingress"}


def test_a_file_is_appended_to_and_carries_exceptions(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "router.log"
    for _ in range(2):
        configure_logging("router", "debug", file=file)
        try:
            raise ValueError("odd")
        except ValueError:
            structlog.get_logger().exception("it failed")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 2
    assert all("ValueError: odd" in line["exception"] for line in lines)
