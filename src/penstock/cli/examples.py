"""Examples for the `--help` of every command; a test checks that each of them is valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer
from typer.models import CommandInfo

EXAMPLES: dict[str, Sequence[str]] = {
    "apiserver": ("penstock apiserver --data-dir /var/lib/penstock/control-plane",),
    "apply": ("penstock apply --file broker.yaml --wait", "kubectl get triggers -o yaml | penstock apply --file -"),
    "backtest": ("penstock backtest -f trigger.yaml --since 24h --expect 'added=0'",),
    "conformance manifests": ("penstock conformance manifests /tmp/manifests",),
    "conformance report": ("penstock conformance report",),
    "conformance run": ("penstock conformance run event-delivery --test 05",),
    "conformance tests": ("penstock conformance tests",),
    "console": ("penstock console --kubeconfig ~/.kube/config --set console_metrics=http://127.0.0.1:9093/metrics",),
    "control": ("penstock control --kafka kafka-1:9092 --data-dir /var/lib/penstock/control-plane",),
    "create broker": ("penstock create broker orders --dead-letter-sink http://127.0.0.1:9001/",),
    "create channel": ("penstock create channel orders",),
    "create subscription": (
        "penstock create subscription billing --channel orders --subscriber http://127.0.0.1:9000/",
    ),
    "create trigger": (
        "penstock create trigger greetings --subscriber http://127.0.0.1:9000/",
        "penstock create trigger big --subscriber http://127.0.0.1:9000/ --filter type=order --filter 'size > 100'",
    ),
    "deadletters": ("penstock deadletters trigger/orders --since 1d --each",),
    "delete": ("penstock delete trigger/greetings",),
    "dev": ("penstock dev", "penstock dev --port 0 --data-dir /tmp/other --set retention_hours=24"),
    "doctor": ("penstock doctor",),
    "events": ("penstock events --since 1h --type order --data",),
    "explain": ("penstock explain greetings --type greeting --subject abc",),
    "get": ("penstock get triggers --wide", "penstock get trigger/greetings --yaml"),
    "history": ("penstock history --kafka kafka-1:9092 --set history_uri=s3a://bucket/history",),
    "ingress": ("penstock ingress --kafka kafka-1:9092 --port 8080",),
    "install": ("penstock install --image registry.example/penstock --kafka kafka-1:9092 --print",),
    "keys create": ("penstock keys create orders till --days 30 --events 100 --bytes 1000000",),
    "keys list": ("penstock keys list orders",),
    "keys open": ("penstock keys open orders",),
    "keys revoke": ("penstock keys revoke orders till",),
    "kubeconfig": ("penstock kubeconfig --as ann --group developers --hours 8 --output ann.kubeconfig",),
    "lag": ("penstock lag --all",),
    "listen": ("penstock listen --broker default --filter type=order", "penstock listen --answer 503"),
    "open": ("penstock open", "penstock open routes --no-browser"),
    "pause": ("penstock pause trigger/greetings",),
    "pipeline": ("penstock pipeline --kafka kafka-1:9092 --spark-master spark://spark-1:7077",),
    "redrive": ("penstock redrive trigger/orders --reason 503 --watch",),
    "replay": (
        "penstock replay trigger/orders --since 2h --rate 100 --watch",
        "penstock replay broker/default --sink http://127.0.0.1:9000/ --since earliest --dry-run",
    ),
    "resume": ("penstock resume trigger/greetings",),
    "secrets reencrypt": ("penstock secrets reencrypt --set secrets_key_file=/etc/penstock/keys",),
    "send": (
        """penstock send '{"hello": "world"}' --type greeting --watch""",
        "penstock send --event event.json",
        "penstock send {} --broker orders --token @key.txt",
    ),
    "sql": ('penstock sql "select type, count(*) from events group by type"',),
    "status": ("penstock status",),
    "tail": ("penstock tail broker/default --filter type=order", "penstock tail trigger/greetings"),
    "top": ("penstock top --sort failures",),
    "topics": ("penstock topics --kafka kafka-1:9092 --create",),
    "trace": ("penstock trace 5d0d4f3a --watch",),
    "verify": ("penstock verify --since 2h", "penstock verify trigger/orders --since 1d --limit 100 --json"),
    "version": ("penstock version",),
    "webhook": ("penstock webhook --kubeconfig in-cluster",),
}
"""By the name of the command, groups included."""


def add_to(app: typer.Typer) -> None:
    """Gives every command its examples, below its flags."""
    for name, command in commands(app):
        if name in EXAMPLES:
            # Between two lines without an empty one in between, typer makes no break.
            command.epilog = "\n\n".join(["Examples:", *(f"  $ {example}" for example in EXAMPLES[name])])


def commands(app: typer.Typer, before: str = "") -> Iterator[tuple[str, CommandInfo]]:
    """Every command with its name, groups included."""
    for command in app.registered_commands:
        yield f"{before}{command.name or getattr(command.callback, '__name__', '')}", command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from commands(group.typer_instance, f"{before}{group.name} ")
