"""Every setting of penstock, typed, in one object.

The command reads them from flags, then the environment (`PENSTOCK_*`), then `penstock.toml`, then the defaults below,
and hands them on whole: no other process looks at those again. The text under each field is its reference
documentation; it states the unit and what the default means.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from penstock import kafka_properties
from penstock.runtime import hosts

SETTINGS_FILE = "penstock.toml"

IN_CLUSTER = Path("in-cluster")
"""Stands in `kubeconfig` for the files of the Pod's ServiceAccount."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts those."""

DEFAULT_TOPIC_PREFIX = "penstock"

ROOM_FOR_HEADERS = ROOM_FOR_ROUTES = 1024 * 1024
"""What a stored event has beside its data, and what the router adds to it."""

LARGEST_EVENT_BYTES = kafka_properties.PRODUCER_MEMORY_BYTES - ROOM_FOR_HEADERS - ROOM_FOR_ROUTES

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - nobody is bound to them here
"""Hosts that stand for all addresses of this machine: to listen on, and not to connect to."""


def _listed(value: Any) -> Any:
    """A list as it is written in a flag or a variable: `a,b`, or as JSON."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else [part.strip() for part in value.split(",")]


Names = Annotated[list[str], BeforeValidator(_listed)]


def _words(value: Any) -> Any:
    """A command as it is written in a shell, or word by word."""
    return shlex.split(value) if isinstance(value, str) else value


Command = Annotated[list[str], BeforeValidator(_words)]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(value: Any) -> Any:
    """Networks as they are written: `10.0.0.0/8`, or a single address."""
    return [ipaddress.ip_network(one, strict=True) if isinstance(one, str) else one for one in _listed(value)]


Networks = Annotated[list[Network], BeforeValidator(_networks)]


class DestinationLists(BaseModel):
    """Networks that the events of a namespace may and may not go to."""

    model_config = ConfigDict(extra="forbid")

    allow: Networks = []
    deny: Networks = []


class ImageCommand(BaseModel):
    """The program that an image stands for."""

    model_config = ConfigDict(extra="forbid")

    command: Command
    namespaces: Names = []
    """Whose Pods may have the image; empty: those of all."""
    allow_env: Names = []
    """Variables that Pods may set although they can make a program run other code, such as `PYTHONPATH`."""


def _image_command(value: Any) -> Any:
    """A command alone, or a table that says more."""
    return {"command": value} if isinstance(value, str | list) else value


class Settings(BaseModel):
    """The settings of one stack."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid", hide_input_in_errors=True)

    data_dir: Path = Path(".penstock")
    """Folder of everything the stack keeps: Kafka's log, the API's objects, certificates, logs. Created if missing."""

    cache_dir: Path | None = None
    """Folder of downloaded jars. Empty: `penstock` in the user's cache folder (`XDG_CACHE_HOME` or `~/.cache`)."""

    host: str = "127.0.0.1"
    """Address the ingress and the API listen on. Beyond loopback the ingress wants `authentication-oidc`, or
    `insecure_open`."""

    insecure_open: bool = False
    """Whether the ingress may listen beyond loopback and take events from everybody who reaches it."""

    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the ingress: producers POST events here. 0 picks a free one."""

    tls_port: int = Field(default=8444, ge=0, le=65535)
    """Port of the ingress for HTTPS, on which events are taken where `transport-encryption` is `permissive` or `strict`
    (see `docs/security.md`). 0 picks a free one."""

    api_port: int = Field(default=8443, ge=0, le=65535)
    """Port of the embedded Kubernetes API (HTTPS). 0 picks a free one."""

    kafka_port: int = Field(default=19092, ge=0, le=65535)
    """Port of the embedded Kafka. 0 picks a free one."""

    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Port of the Prometheus metrics of all processes. 0 picks a free one."""

    metrics: bool = True
    """Whether metrics are recorded and served."""

    console: bool = True
    """Whether `penstock dev` starts the console, the pages that show the stack in a browser. See `docs/console.md`."""

    console_port: int = Field(default=8081, ge=0, le=65535)
    """Port of the console. 0 picks a free one."""

    console_hosts: Names = []
    """Names (`console.example.org,…`) by which browsers reach the console, besides addresses, `localhost` and the name
    of the machine. A request by another name is refused: it may be a foreign page's."""

    console_metrics: Names = []
    """URLs of the `/metrics` that the console shows, where the roles run elsewhere. A name with several addresses
    stands for as many processes, and each is asked. Empty: those of the data folder."""

    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Port of `/livez`, `/readyz` and `/metrics` of a role that is started alone. 0 picks a free one. Empty: the role's
    own, from 9091 for the ingress on (`penstock ROLE --help`). `penstock dev` has `metrics_port` in their place."""

    kafka: str | None = None
    """Bootstrap addresses (`host:port,…`) of an existing Kafka. Empty: penstock starts its own, single-node."""

    kafka_conf: Mapping[str, kafka_properties.Value] = Field(default={}, repr=False)
    """Properties of every Kafka client, Spark's included, in librdkafka's names (`security.protocol`, …), as a table or
    as JSON. A value may be `{ file = "…" }` or `{ env = "…" }`. See `docs/kafka.md`."""

    topic_prefix: str = Field(default=DEFAULT_TOPIC_PREFIX, pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,98}[a-zA-Z0-9])?$")
    """What the names of topics, groups and transactions in Kafka begin with: two installations with different ones
    share a Kafka. Letters, digits, `.`, `_` and `-`; another prefix is another, empty installation."""

    kafka_wait_seconds: float = Field(default=300, ge=0)
    """Seconds that a role which is started alone waits for a Kafka that does not answer yet, before it ends with an
    error. 0 ends it at the first try."""

    kafka_heap_mib: int = Field(default=256, ge=128)
    """Heap of the embedded Kafka in MiB."""

    partitions: int = Field(default=4, ge=1, le=256)
    """Partitions of `penstock.events` and `penstock.matched`. Fixed when the topics are first created."""

    replication: int | None = Field(default=None, ge=1)
    """Replicas of new topics. Empty: 1 on the embedded Kafka; elsewhere 3, or fewer where there are fewer brokers.
    Brokers that are known to be away count: without them no topic is made."""

    retention_hours: float = Field(default=168, gt=0)
    """Hours for which events are kept at least as long as they fit (see `retention_mib`): 7 days."""

    retention_mib: int = Field(default=2048, ge=64)
    """MiB that all topics together may take on disk; the oldest events go first."""

    min_free_disk_mib: int = Field(default=512, ge=0)
    """Free disk space in MiB below which the ingress answers 507 instead of accepting events."""

    spark_master: str | None = None
    """Spark master of an existing cluster. Empty: a local session with as many task slots as the pipeline needs."""

    spark_heap_mib: int = Field(default=512, ge=256)
    """Heap in MiB of Spark's driver, which is all of Spark where the session is local."""

    router_mode: Literal["realtime", "microbatch"] = "realtime"
    """How the router's query runs: `realtime` (milliseconds) or `microbatch` (hundreds of milliseconds)."""

    spark_conf: dict[str, str | int | float | bool] = {}
    """Properties of Spark, such as `spark.kubernetes.container.image`: a table, or JSON. Those that penstock depends on
    are refused by name. See `docs/spark.md`."""

    spark_python: str | None = None
    """Python that the executors of a given cluster run, with penstock installed. Empty: `python3.11` or whatever the
    version here is, found there, and penstock is sent along with all that it needs."""

    spark_driver_host: str | None = None
    """Name or address under which executors of a given cluster reach this process. Empty: the address by which this
    machine reaches the master."""

    spark_driver_bind: str | None = None
    """Address that Spark's driver listens on for a given cluster. Empty: all, where `spark_driver_host` is given, and
    otherwise the address that was found."""

    spark_executors: int = Field(default=2, ge=1)
    """Executors asked of Kubernetes or YARN. A standalone cluster gives one on each Worker."""

    spark_executor_cores: int | None = Field(default=None, ge=1)
    """Task slots of each executor. Empty: the pipeline's share of each on Kubernetes and YARN, all of a Worker's cores
    on a standalone cluster."""

    spark_executor_memory_mib: int = Field(default=1024, ge=512)
    """Heap in MiB of each executor of a given cluster."""

    spark_warm_standby: bool = False
    """Whether a pipeline that stands by has its executors on a given cluster already: it takes over seconds sooner, and
    the cluster needs the slots and the memory twice. A local Spark is always ready."""

    router_marker_seconds: float = Field(default=2.0, gt=0)
    """Seconds between the router's position markers while there is traffic; a restart re-reads at most this much."""

    router_coalesce_ms: int = Field(default=200, ge=0)
    """Milliseconds for which changes of routes are gathered before a new generation of the query starts."""

    ingress_processes: int = Field(default=1, ge=1)
    """Number of ingress processes that share the port."""

    max_event_bytes: int = Field(default=1024 * 1024, ge=1024, le=LARGEST_EVENT_BYTES)
    """Largest accepted event in bytes; larger ones are answered 413. At most 31457280 (30 MiB): a larger one would not
    fit into the memory of the router's Kafka client, and no event after it would be routed."""

    max_pending_events: int = Field(default=20_000, ge=1)
    """Events an ingress process holds that Kafka has not confirmed; beyond that it answers 429 with Retry-After."""

    max_connections: int = Field(default=4096, ge=1)
    """Connections an ingress process serves at once (fewer where open files are limited); further ones get 503."""

    max_arriving_mib: int = Field(default=128, ge=1)
    """MiB of requests that an ingress process holds while they arrive in pieces; beyond that it answers 503."""

    store_timeout_seconds: float = Field(default=5, gt=0)
    """Seconds the ingress waits for Kafka to confirm an event before it answers 503."""

    broker_ttl: int = Field(default=255, ge=1)
    """`knativebrokerttl` given to an event that enters a Broker without one, and the highest that an event can have. It
    limits how often replies can lead into a Broker again."""

    dispatchers: int = Field(default=1, ge=1)
    """Dispatcher tasks; each owns a share of the partitions of `penstock.matched`."""

    max_in_flight: int = Field(default=100, ge=1)
    """Requests under way at once per route; the annotation `penstock.dev/max-in-flight` overrides it."""

    max_outstanding: int = Field(default=2000, ge=1)
    """Deliveries a route may have started and not finished, waiting retries included, per partition."""

    max_outstanding_total: int = Field(default=100_000, ge=1)
    """Deliveries a dispatcher task may have started and not finished over all routes; beyond that each keeps a few."""

    delivery_memory_mib: int = Field(default=64, ge=1)
    """MiB of events a dispatcher task keeps in memory; what does not fit is read again from Kafka when it is due."""

    catch_up_records: int = Field(default=500, ge=1)
    """Records read at a time for a route that fell behind, before another such route has its turn."""

    max_in_flight_total: int = Field(default=512, ge=1)
    """Requests under way at once per dispatcher task, over all routes."""

    delivery_timeout_seconds: float = Field(default=600, gt=0)
    """Time limit in seconds of one delivery attempt where the delivery spec sets none."""

    deliver_allow: Networks = []
    """Networks (`10.1.0.0/16,…`) that events may be delivered to although a wider one is refused: by `deliver_deny`, or
    by itself, as link-local and multicast addresses are. The longest network that contains an address decides."""

    deliver_deny: Networks = []
    """Networks that no event is delivered to. `0.0.0.0/0,::/0` leaves only what `deliver_allow` names."""

    deliver_loopback: bool | None = None
    """Whether events may be delivered to this very machine (127.0.0.0/8, ::1). Empty: only with the embedded API."""

    deliver_namespaces: dict[str, DestinationLists] = {}
    """Lists of a namespace, which count before the common ones: `[deliver_namespaces.team]` with `allow` and `deny`."""

    cursor_flush_ms: int = Field(default=100, ge=1)
    """Milliseconds between writes of delivery cursors; a crash repeats at most what finished within this time."""

    loss_warning_hours: float = Field(default=24, gt=0)
    """Hours that a Trigger or Subscription warns in its status of events that retention took before it had them."""

    history: bool = True
    """Whether every event and every delivery attempt is kept in two tables (see `docs/history.md`), for `penstock sql`,
    `events` and `trace`, after Kafka has forgotten them. Needs the extra `history` of the package; `penstock dev` says
    so where it is missing, and does without. Roles that run alone keep it where there is one named `history`."""

    history_uri: str | None = None
    """Folder of the tables, or any URI that Spark can write to. Empty: `history` in the data folder."""

    history_days: int = Field(default=30, ge=1)
    """Days for which the tables keep events and attempts; older days are removed."""

    history_mib: int = Field(default=4096, ge=64)
    """MiB that the tables may take together; the oldest days are removed first, then the oldest part of the present."""

    broker_classes: Names = ["Penstock", "MTChannelBasedBroker", "Kafka"]
    """Broker classes served here. The status of a Broker of another class says so; in an existing cluster it is left
    alone."""

    default_broker_class: str = "Penstock"
    """Class given to a Broker that names none."""

    filters_on_data: bool = True
    """Whether filters may ask for what is in an event's data (dialect `data`), which Knative refuses. What is stored
    already goes on when it is turned off. See `docs/filters.md`."""

    images: dict[str, Annotated[ImageCommand, BeforeValidator(_image_command)]] = {}
    """Programs that Pods run as, by image: `[images]` with `"*/mine*" = ["python", "-m", "mine"]`. The first pattern
    that fits counts, before the built-in images. `[]` runs the Pod's own command. As a table, `[images."*/mine*"]` with
    `command`, it may have `namespaces`, whose Pods may have the image, and `allow_env`. See `docs/pods.md`."""

    kubeconfig: Path | None = None
    """Kubeconfig of an existing cluster whose API the controllers use; `in-cluster` for the credentials that Kubernetes
    mounts into a Pod. Empty: the embedded API server is started."""

    signing_key_days: float = Field(default=90, ge=1)
    """Days that a key of the embedded API signs tokens of ServiceAccounts before the next one does. For as many again
    what it signed is taken, so no token lives longer than that."""

    oidc_issuers: Names = []
    """Issuers of tokens that the ingress takes beside the Kubernetes API's own, where `authentication-oidc` is enabled:
    URLs below which `/.well-known/openid-configuration` is found. See `docs/security.md`."""

    webhook_port: int = Field(default=9443, ge=0, le=65535)
    """Port of the admission webhook (HTTPS) that the API server of an existing cluster calls. 0 picks a free one."""

    lease_namespace: str | None = None
    """Namespace of the Leases by which one control and one pipeline are chosen where `kubeconfig` names a cluster.
    Empty: that of the kubeconfig's context, or of the Pod."""

    api_requests_per_second: float = Field(default=200, gt=0)
    """Requests per second that one user of the embedded API may make; twice as many at once. Beyond that the answer is
    429 with Retry-After. Administrators (`system:masters`) and penstock's own processes are exempt."""

    api_max_connections: int = Field(default=12_000, ge=16)
    """Connections to the embedded API at once, watches among them; further ones are answered 503."""

    api_audit_log: Path | None = None
    """File that gets a line of JSON (audit.k8s.io/v1) for every request to the embedded API: who, what, when, answered
    how. Bodies and tokens are never in it. Empty: none is written."""

    secrets_key_file: Path | None = None
    """File with the keys that Secrets are encrypted with in `api.db`: lines `NAME:KEY` with 32 random bytes in base64.
    The first encrypts, all decrypt; see `docs/security.md`. Empty, and no `secrets_key_command`: they are stored as
    they are, in a file that only its owner can read."""

    secrets_key_command: Command | None = None
    """Command that prints the passphrase of the key instead, such as `["pass", "show", "penstock"]`."""

    address_base: str | None = None
    """Base URL under which producers reach the ingress, for `status.address`. Empty: `http://<host>:<port>`, with the
    machine's name where `host` is all of its addresses."""

    tls_address_base: str | None = None
    """The same for HTTPS. Empty: `https://`, the host of `address_base` or else `host`, and `tls_port`."""

    tls: bool = False
    """Whether metrics, probes and the console speak HTTPS in place of HTTP, with the certificate of the ingress."""

    tls_cert_file: Path | None = None
    """File with the certificate (PEM, with those between it and its authority) that servers show, such as `tls.crt` of
    a Secret of cert-manager. It is read again when it changes. Empty: one of the data folder's own authority."""

    tls_key_file: Path | None = None
    """File with the key of that certificate (PEM, without a password)."""

    tls_ca_file: Path | None = None
    """File with what clients have to trust to believe that certificate, for `CACerts` in addresses. Empty: nothing but
    what every system trusts, or the data folder's own authority where `tls_cert_file` is empty."""

    adopt_routes: bool = False
    """Whether the control plane takes over routes in Kafka that were made from the objects of another Kubernetes API.
    Those that no object of this API asks for are removed, with what they have not delivered. For one start."""

    resync_seconds: float = Field(default=300, gt=0)
    """Seconds after which the controllers look at every object again even if nothing changed."""

    drain_seconds: float = Field(default=5, ge=0)
    """Seconds each component gets to finish what it has begun when the stack stops."""

    verbose: bool = False
    """Show every component's log on the terminal and log at debug level."""

    @field_validator("spark_conf", "images", "deliver_namespaces", mode="before")
    @classmethod
    def _read_json(cls, value: object) -> object:
        """Flags and variables give a table as text."""
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("kafka_conf", mode="before")
    @classmethod
    def _flatten(cls, value: object) -> object:
        """Without quotes around its names, TOML makes tables within tables of them."""
        table = json.loads(value) if isinstance(value, str) else value
        return kafka_properties.flat(table) if isinstance(table, Mapping) else table

    @field_validator("kafka_conf")
    @classmethod
    def _check_kafka_conf(cls, value: Mapping[str, kafka_properties.Value]) -> Mapping[str, kafka_properties.Value]:
        """What would reach only some of the clients is refused."""
        if wrong := kafka_properties.wrong_with(value):
            raise ValueError("; ".join(wrong))
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any, field: ValidationInfo) -> Any:
        """A variable that is set to nothing means what the documentation says of an empty setting."""
        may_be_empty = field.field_name is not None and cls.model_fields[field.field_name].default is None
        return None if value == "" and may_be_empty else value

    @property
    def history_root(self) -> str:
        """Where the tables are: a folder, or a URI."""
        if self.history_uri is not None and "://" in self.history_uri:
            return self.history_uri.rstrip("/")
        return str(Path(self.history_uri or self.data_dir / "history").expanduser().absolute())

    @property
    def bootstrap(self) -> str:
        """Kafka's addresses, embedded or given."""
        return self.kafka or f"127.0.0.1:{self.kafka_port}"

    @property
    def embedded_kafka_dir(self) -> Path:
        """Where the embedded Kafka keeps its files. It may be a disk of its own."""
        return self.data_dir / "kafka"

    @property
    def on_cluster(self) -> bool:
        """Whether tasks of Spark run elsewhere than in the process of the pipeline."""
        return self.spark_master is not None and not self.spark_master.startswith("local")

    @property
    def task_slots(self) -> int:
        """Tasks that must be able to run at the same time: two generations of the router's query while one takes over
        from the other, the dispatchers, and two for what Spark does besides."""
        return 2 * self.partitions + self.dispatchers + 2

    @property
    def max_record_bytes(self) -> int:
        """Largest Kafka record: an event of the largest size and its headers."""
        return self.max_event_bytes + ROOM_FOR_HEADERS

    @property
    def max_matched_bytes(self) -> int:
        """Largest record that the router writes: the largest that it may read, and a list of routes."""
        return self.max_record_bytes + ROOM_FOR_ROUTES

    @property
    def ingress_url(self) -> str:
        """Base URL of the ingress as clients of this stack see it."""
        return (self.address_base or f"http://{hosts.reachable(self.host)}:{self.port}").rstrip("/")

    @property
    def scheme(self) -> str:
        """Of metrics, probes and the console."""
        return "https" if self.tls else "http"

    @property
    def tls_ingress_url(self) -> str:
        """The same for HTTPS."""
        named = urlsplit(self.address_base or "").hostname
        host = hosts.in_url(named) if named else hosts.reachable(self.host)
        return (self.tls_address_base or f"https://{host}:{self.tls_port}").rstrip("/")

    @property
    def console_url(self) -> str:
        """URL of the console, as a browser on this machine reaches it."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{host}:{self.console_port}/"

    @property
    def api_url(self) -> str:
        """URL of the embedded Kubernetes API, for those who are elsewhere too."""
        return f"https://{hosts.reachable(self.host)}:{self.api_port}"
