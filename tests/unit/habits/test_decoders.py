"""msgspec learns a type when it is first asked for it. Two threads that ask at once end the process."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "penstock"
ALONE = {
    "apiserver/http/read_endpoints.py",
    "apiserver/protobuf/messages.py",
    "conformance/report.py",
    "workloads/actors/receiver.py",
}
"""Plain types, which there is nothing to learn of; a command without threads; a table that the loop alone reads."""


def test_decoders_are_made_when_their_module_is_imported() -> None:
    asking = re.compile(r"msgspec\.(json|msgpack)\.decode\([^\n]*type=")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if asking.search(path.read_text())}
    assert found == ALONE
