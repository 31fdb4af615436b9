"""Parses the environment of the images `recordevents` and `eventshub`, which can be receiver, sender or forwarder.

Errors contain the name and the value of the variable. Other variables are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

from penstock.workloads.images import ActorName

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str) -> float:
    """Parses a duration in Go's notation (`1m30s`, `250ms`) or a number of seconds. Raises ValueError."""
    text = text.strip()
    if text.isdecimal():
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a duration: write a number of seconds, or for example 500ms, 5s, 1m30s')
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])

T = TypeVar("T")
Role = Literal["receiver", "sender", "forwarder"]
Vent = Literal["logger", "recorder"]


CERTIFICATES, TOKEN = "EVENTSHUB_CERTIFICATES", "EVENTSHUB_TOKEN"
DEFAULT_PATHS = {CERTIFICATES: "/etc/tls/certificates", TOKEN: "/oidc/token"}
"""Default paths of mounted files in the image, which variables can override."""


class BrokenEnvironment(ValueError):
    """Invalid environment: the program exits with this message and code 1."""


@dataclass(frozen=True)
class Common:
    """Options of all roles."""

    name: str
    """`observer` of everything it reports: the Pod's name."""
    namespace: str
    """Where the recorder writes Kubernetes Events."""
    vents: tuple[Vent, ...]
    agent: str


@dataclass(frozen=True)
class ReceiverOptions:
    """A program that receives events."""

    skips: Callable[[], Skips]
    """Creates a counter for each start of the program."""
    skip_code: int = 409
    skip_body: str = ""
    skip_headers: Mapping[str, str] = field(default_factory=dict)
    reply: bool = False
    reply_type: str = ""
    reply_source: str = ""
    reply_data: str = ""
    reply_append: str = ""
    wait: float = 0.0
    format: Literal["", "binary", "structured"] = ""
    certificates: str = ""
    """The folder with `tls.crt` and `tls.key`, if TLS is required."""
    audience: str = ""
    """The required audience of tokens. Empty: no tokens."""


@dataclass(frozen=True)
class SenderOptions:
    """A program that sends events."""

    sink: str
    delay: float
    period: float
    count: int
    """Number of events; 0 sends without end."""
    encoding: Literal["binary", "structured"]
    event: Mapping[str, object] | None
    """Its data are unparsed (`msgspec.Raw`)."""
    headers: Mapping[str, str]
    body: str
    method: str
    yaml: tuple[str, ...]
    add_sequence: bool
    incremental_id: bool
    override_time: bool
    add_tracing: bool
    probe: bool
    probe_timeout: float
    files: tuple[str, ...] = ()
    """JSON events to forward, each of which must reach the sink."""
    ca_certs: str = ""
    """CA certificates of the sink, in addition to those of the system."""
    token: str = ""
    """The file with the token to send. Empty: no token."""


@dataclass(frozen=True)
class ActorOptions:
    """All options of a container."""

    common: Common
    receiver: ReceiverOptions | None
    sender: SenderOptions | None


def read_options(image: ActorName, env: Mapping[str, str]) -> ActorOptions:
    """Parses the environment. Raises BrokenEnvironment."""
    roles: tuple[Role, ...] = _choices(env, "EVENT_GENERATORS", ("receiver", "sender", "forwarder"))
    if not roles:
        raise BrokenEnvironment("EVENT_GENERATORS is empty: name receiver, sender, both, or forwarder")
    common = Common(
        name=env.get("POD_NAME") or "observer-default",
        namespace=env.get("SYSTEM_NAMESPACE") or env.get("NAMESPACE") or "",
        vents=_choices(env, "EVENT_LOGS", ("logger", "recorder")),
        agent=env.get("AGENT_NAME") or "observer-default",
    )
    if "recorder" in common.vents and not common.namespace:
        raise BrokenEnvironment("EVENT_LOGS names recorder, which needs SYSTEM_NAMESPACE: where to write its Events")
    return ActorOptions(
        common,
        _receiver(env) if "receiver" in roles else None,
        _sender(image, env) if "sender" in roles else _forwarder(env) if "forwarder" in roles else None,
    )


def _receiver(env: Mapping[str, str]) -> ReceiverOptions:
    algorithm = env.get("SKIP_ALGORITHM", "")
    count = _read(env, "SKIP_COUNTER", _natural, 0)
    makers: dict[str, Callable[[], Skips]] = {
        "": lambda: nothing,
        "sequence": lambda: first(count),
        "fibonacci": Fibonacci,
    }
    if algorithm not in makers:
        raise BrokenEnvironment(f'SKIP_ALGORITHM is "{algorithm}": use sequence or fibonacci, or leave it out')
    return ReceiverOptions(
        skips=makers[algorithm],
        skip_code=_read(env, "SKIP_RESPONSE_CODE", _status, 409),
        skip_body=env.get("SKIP_RESPONSE_BODY", ""),
        skip_headers=_read(env, "SKIP_RESPONSE_HEADERS", _pairs, {}),
        reply=_read(env, "REPLY", _flag, False),
        reply_type=env.get("REPLY_EVENT_TYPE", ""),
        reply_source=env.get("REPLY_EVENT_SOURCE", ""),
        reply_data=env.get("REPLY_EVENT_DATA", ""),
        reply_append=env.get("REPLY_APPEND_DATA", ""),
        wait=_read(env, "RESPONSE_WAIT_TIME", seconds, 0.0),
        format=_read(env, "EVENT_FORMAT", _format, ""),
        certificates=_path(env, CERTIFICATES) if _read(env, "ENFORCE_TLS", _flag, False) else "",
        audience=env.get("OIDC_AUDIENCE", ""),
    )


def _forwarder(env: Mapping[str, str]) -> SenderOptions:
    files = tuple(part for part in env.get("FROM_FILES", "").split(",") if part)
    if not files:
        raise BrokenEnvironment("FROM_FILES is empty: the forwarder here sends events from files and receives none")
    return SenderOptions(
        sink=_sink(env),
        delay=0.0,
        period=0.0,
        count=len(files),
        encoding="binary",
        event=None,
        headers={},
        body="",
        method="POST",
        yaml=(),
        add_sequence=False,
        incremental_id=False,
        override_time=False,
        add_tracing=False,
        probe=False,
        probe_timeout=0.0,
        files=files,
    )


def _sink(env: Mapping[str, str]) -> str:
    sink = env.get("SINK", "")
    if not sink.startswith(("http://", "https://")):
        raise BrokenEnvironment(f'SINK is "{sink}": give the http:// or https:// URL to send to')
    return sink


def _sender(image: ActorName, env: Mapping[str, str]) -> SenderOptions:
    sink = _sink(env)
    event = _read(env, "INPUT_EVENT", _object, None)
    headers: dict[str, str] = _read(env, "INPUT_HEADERS", _pairs, {})
    yaml = tuple(part.strip() for part in env.get("INPUT_YAML", "").split(",") if part.strip())
    if event is None and not headers and not env.get("INPUT_BODY") and not yaml:
        raise BrokenEnvironment(
            "there is nothing to send: set INPUT_EVENT, INPUT_YAML, or INPUT_HEADERS and INPUT_BODY"
        )
    return SenderOptions(
        sink=sink,
        delay=_read(env, "DELAY", seconds, 5.0),
        period=_read(env, "PERIOD", seconds, 5.0),
        count=_read(env, "MAX_MESSAGES", _natural, 1),
        encoding=_read(env, "EVENT_ENCODING", _encoding, "binary"),
        event=event,
        headers=headers,
        body=env.get("INPUT_BODY", ""),
        method=env.get("INPUT_METHOD") or "POST",
        yaml=yaml,
        add_sequence=_read(env, "ADD_SEQUENCE", _flag, False),
        incremental_id=_read(env, "INCREMENTAL_ID", _flag, False),
        override_time=_read(env, "OVERRIDE_TIME", _flag, False),
        add_tracing=_read(env, "ADD_TRACING", _flag, False),
        probe=_read(env, "PROBE_SINK", _flag, image == "eventshub"),
        probe_timeout=_read(env, "PROBE_SINK_TIMEOUT", seconds, 60.0),
        ca_certs=env.get("CA_CERTS", ""),
        token=_path(env, TOKEN) if _read(env, "ENABLE_OIDC_AUTH", _flag, False) else "",
    )


def _path(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or DEFAULT_PATHS[name]


def _read(env: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    text = env.get(name, "")
    if text == "":
        return default
    try:
        return parse(text)
    except ValueError as error:
        raise BrokenEnvironment(f'{name} is "{text}": {error}') from error


def _choices(env: Mapping[str, str], name: str, known: tuple[T, ...]) -> tuple[T, ...]:
    words = [word.strip() for word in env.get(name, "").split(",") if word.strip()]
    unknown = [word for word in words if word not in known]
    if unknown:
        raise BrokenEnvironment(f"{name} names {', '.join(unknown)}: known are {', '.join(map(str, known))}")
    return tuple(word for word in known if word in words)


def _flag(text: str) -> bool:
    values = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if text.lower() not in values:
        raise ValueError("write true or false")
    return values[text.lower()]


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("write a number, 0 or more")
    return int(text)


def _status(text: str) -> int:
    if not text.isdecimal() or not 200 <= int(text) <= 599:
        raise ValueError("write an HTTP status from 200 to 599")
    return int(text)


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise ValueError("write name:value pairs, separated by commas")
        pairs[name.strip()] = value.strip()
    return pairs


def _object(text: str) -> Mapping[str, object] | None:
    try:
        event = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(event, dict):
        raise ValueError("write a CloudEvent as a JSON object")
    if "data" in event:
        event["data"] = _data_as_written(text)
    return event


def _data_as_written(event: str) -> msgspec.Raw:
    """The bytes from the colon to the end of the data, including spaces, which the images send unchanged."""
    data = bytes(_MEMBERS.decode(event)["data"])
    found = re.search(rb'"data"\s*:(\s*)' + re.escape(data), event.encode())
    return msgspec.Raw((found[1] if found else b"") + data)


def _encoding(text: str) -> Literal["binary", "structured"]:
    if text == "structured":
        return "structured"
    if text == "binary":
        return "binary"
    raise ValueError("use binary or structured")


def _format(text: str) -> Literal["", "binary", "structured"]:
    if text in ("json", "structured"):
        return "structured"
    if text == "binary":
        return "binary"
    raise ValueError("use binary or json")


Skips = Callable[[int], bool]
"""Whether a receiver rejects the event with this number, counted from 1."""


def nothing(number: int) -> bool:
    """Every event is received."""
    return False


def first(count: int) -> Skips:
    """The first `count` events are rejected."""
    return lambda number: number <= count


class Fibonacci:
    """Only the events whose number is in the Fibonacci sequence (1, 2, 3, 5, 8, …) are received."""

    def __init__(self) -> None:
        self._previous, self._current = 1, 1

    def __call__(self, number: int) -> bool:
        if number != self._current:
            return True
        self._previous, self._current = self._current, self._previous + self._current
        return False
