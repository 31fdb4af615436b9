"""What `docs/getting-started.md` tells a newcomer to do works, word for word; only the ports are others here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.running import Stack, held_ports
from tests.waiting import eventually

PAGE = (Path(__file__).parents[3] / "docs" / "getting-started.md").read_text()


def test_the_page_leads_to_a_delivered_event(stack: Stack, tmp_path: Path) -> None:
    [port] = held_ports(1)
    broker, trigger = (_here(text, stack, port) for text in re.findall(r"<<EOF\n(.*?)EOF\n", PAGE, re.DOTALL))
    [subscriber] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [curl] = re.findall(r"^\$ (curl .*?)\nHTTP/1.1 202", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "subscriber.py").write_text(_here(subscriber, stack, port))

    with (tmp_path / "received").open("w") as output:
        listening = subprocess.Popen([sys.executable, "-u", tmp_path / "subscriber.py"], stdout=output)
    try:
        stack.apply(broker)
        stack.apply(trigger)
        stack.kubectl("wait", "--for=condition=Ready", "trigger/greetings", "--timeout=150s", timeout=170)
        sent = subprocess.run(
            ["sh", "-c", _here(curl, stack, port)], capture_output=True, text=True, timeout=120, check=False
        )
        assert "202 Accepted" in sent.stdout
        seen = eventually(lambda: whole_lines(tmp_path / "received"))
        assert seen == 'greeting 1 {"hello": "world"}\n'
    finally:
        stack.kubectl("delete", "trigger/greetings", check=False)
        listening.kill()
        listening.wait()


def whole_lines(path: Path) -> str:
    """What is in a file, once its last line is there as a whole: who prints writes it in pieces."""
    text = path.read_text()
    return text if text.endswith("\n") else ""


def _here(text: str, stack: Stack, port: int) -> str:
    return text.replace("127.0.0.1:8080", f"127.0.0.1:{stack.settings.port}").replace("9000", str(port))
