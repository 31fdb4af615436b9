"""Every setting of penstock, typed, in one object.

The command reads them from flags, then the environment (`PENSTOCK_*`), then `penstock.toml`, then the defaults below,
and passes the resolved settings to all processes. The docstring of each field is its reference documentation
(docs/settings.md).
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
"""The value of `kubeconfig` for the files of the Pod's ServiceAccount."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts these files."""

DEFAULT_TOPIC_PREFIX = "penstock"

HEADER_BYTES = ROUTE_LIST_BYTES = 1024 * 1024
"""Space in a record for the attributes of an event, and for the routes that the router adds."""

LARGEST_EVENT_BYTES = kafka_properties.PRODUCER_MEMORY_BYTES - HEADER_BYTES - ROUTE_LIST_BYTES


def _listed(value: Any) -> Any:
    """Parses the list of a flag or variable: `a,b`, or JSON."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else [part.strip() for part in value.split(",")]


Names = Annotated[list[str], BeforeValidator(_listed)]


def _words(value: Any) -> Any:
    """Parses a command in shell syntax; a list stays as it is."""
    return shlex.split(value) if isinstance(value, str) else value


Command = Annotated[list[str], BeforeValidator(_words)]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(value: Any) -> Any:
    """Parses networks such as `10.0.0.0/8`, or single addresses."""
    return [ipaddress.ip_network(one, strict=True) if isinstance(one, str) else one for one in _listed(value)]


Networks = Annotated[list[Network], BeforeValidator(_networks)]


class DestinationLists(BaseModel):
    """Networks to which events of a namespace may and may not be delivered."""

    model_config = ConfigDict(extra="forbid")

    allow: Networks = []
    deny: Networks = []


class ImageCommand(BaseModel):
    """The program to run for an image."""

    model_config = ConfigDict(extra="forbid")

    command: Command
    namespaces: Names = []
    """Namespaces whose Pods may use the image. Empty: all."""
    allow_env: Names = []
    """Environment variables that Pods may set although they can make a program run other code, such as `PYTHONPATH`."""


def _image_command(value: Any) -> Any:
    """Parses a command alone, or a table."""
    return {"command": value} if isinstance(value, str | list) else value


class Settings(BaseModel):
    """The settings of one stack."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid", hide_input_in_errors=True)

    data_dir: Path = Path(".penstock")
    """Folder for all data of the stack: Kafka's log, the API's objects, certificates, logs. Created if missing."""

    cache_dir: Path | None = None
    """Folder for downloaded jars. Empty: `penstock` in the user's cache folder (`XDG_CACHE_HOME` or `~/.cache`)."""

    host: str = "127.0.0.1"
    """Address that the ingress and the API listen on. Other than loopback addresses require `authentication-oidc` or
    `insecure_open` for the ingress."""

    insecure_open: bool = False
    """Whether the ingress may listen on other than loopback addresses without authentication of senders."""

    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the ingress, to which producers POST events. 0 picks a free one."""

    tls_port: int = Field(default=8444, ge=0, le=65535)
    """HTTPS port of the ingress, used if `transport-encryption` is `permissive` or `strict` (see `docs/security.md`). 0
    picks a free one."""

    api_port: int = Field(default=8443, ge=0, le=65535)
    """Port of the embedded Kubernetes API (HTTPS). 0 picks a free one."""

    kafka_port: int = Field(default=19092, ge=0, le=65535)
    """Port of the embedded Kafka. 0 picks a free one."""

    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Port of the Prometheus metrics of all processes. 0 picks a free one."""

    metrics: bool = True
    """Whether metrics are recorded and served."""

    console: bool = True
    """Whether `penstock dev` starts the console, which shows the stack in a browser. See `docs/console.md`."""

    console_port: int = Field(default=8081, ge=0, le=65535)
    """Port of the console. 0 picks a free one."""

    console_hosts: Names = []
    """Host names (`console.example.org,…`) of the console, in addition to addresses, `localhost` and the name of the
    machine. Requests with another `Host` are refused, which prevents DNS rebinding."""

    console_metrics: Names = []
    """URLs of the `/metrics` that the console shows if roles run elsewhere. All addresses of a host name are read, each
    as one process. Empty: the metrics in the data folder."""

    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Port of `/livez`, `/readyz` and `/metrics` of a role that runs on its own. 0 picks a free one. Empty: the role's
    default, 9091 for the ingress (see `penstock ROLE --help`). `penstock dev` uses `metrics_port` instead."""

    kafka: str | None = None
    """Bootstrap addresses (`host:port,…`) of an existing Kafka. Empty: `penstock dev` starts a single-node Kafka."""

    kafka_conf: Mapping[str, kafka_properties.Value] = Field(default={}, repr=False)
    """Properties of all Kafka clients, including Spark's, with librdkafka's names (`security.protocol`, …), as a table
    or JSON. A value may be `{ file = "…" }` or `{ env = "…" }`. See `docs/kafka.md`."""

    topic_prefix: str = Field(default=DEFAULT_TOPIC_PREFIX, pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,98}[a-zA-Z0-9])?$")
    """Prefix of topics, consumer groups and transactional ids, so that several installations can share a Kafka.
    Letters, digits, `.`, `_` and `-`. After a change the installation is empty."""

    kafka_wait_seconds: float = Field(default=300, ge=0)
    """Seconds that a role that runs on its own waits for an unreachable Kafka at its start, before it exits with an
    error. 0: no wait."""

    kafka_heap_mib: int = Field(default=256, ge=128)
    """Heap of the embedded Kafka, in MiB."""

    partitions: int = Field(default=4, ge=1, le=256)
    """Partitions of `penstock.events` and `penstock.matched`, when they are created. Add more with `penstock
    topics`."""

    replication: int | None = Field(default=None, ge=1)
    """Replicas of new topics. Empty: 1 on the embedded Kafka, otherwise 3, or the number of brokers if that is less.
    Brokers that are down are counted, and topics are not created until they are up."""

    retention_hours: float = Field(default=168, gt=0)
    """Hours for which events are kept, within `retention_mib`. Default: 7 days."""

    retention_mib: int = Field(default=2048, ge=64)
    """Disk space of all topics together, in MiB; the oldest events are removed first."""

    min_free_disk_mib: int = Field(default=512, ge=0)
    """Free disk space, in MiB, below which the ingress responds with 507 instead of accepting events."""

    spark_master: str | None = None
    """Spark master of an existing cluster. Empty: a local session with as many task slots as the pipeline needs."""

    spark_heap_mib: int = Field(default=512, ge=256)
    """Heap of Spark's driver, in MiB. With a local session that is all of Spark."""

    router_mode: Literal["realtime", "microbatch"] = "realtime"
    """How the router's query runs: `realtime` (milliseconds) or `microbatch` (hundreds of milliseconds)."""

    spark_conf: dict[str, str | int | float | bool] = {}
    """Properties of Spark, such as `spark.kubernetes.container.image`, as a table or JSON. Properties that penstock
    depends on cannot be set. See `docs/spark.md`."""

    spark_python: str | None = None
    """Python of the executors of an existing cluster, with penstock installed. Empty: the `python3.x` of the same
    version as here, and penstock is sent to the executors with its dependencies."""

    spark_driver_host: str | None = None
    """Host name or address at which executors of an existing cluster reach this process. Empty: the local address of
    connections to the master."""

    spark_driver_bind: str | None = None
    """Address that Spark's driver listens on for an existing cluster. Empty: all addresses if `spark_driver_host` is
    set, otherwise the detected address."""

    spark_executors: int = Field(default=2, ge=1)
    """Number of executors on Kubernetes or YARN. A standalone cluster starts one on each Worker."""

    spark_executor_cores: int | None = Field(default=None, ge=1)
    """Task slots of each executor. Empty: the pipeline's share of each on Kubernetes and YARN, all of a Worker's cores
    on a standalone cluster."""

    spark_executor_memory_mib: int = Field(default=1024, ge=512)
    """Heap of each executor of an existing cluster, in MiB."""

    spark_warm_standby: bool = False
    """Whether a standby pipeline starts its executors on an existing cluster: it takes over seconds sooner, but the
    cluster needs the slots and the memory twice. A local Spark is always started."""

    router_marker_seconds: float = Field(default=2.0, gt=0)
    """Seconds between the router's position markers while there is traffic; a restart re-reads at most as much."""

    router_coalesce_ms: int = Field(default=200, ge=0)
    """Milliseconds for which changes of routes are collected before a new generation of the query starts."""

    ingress_processes: int = Field(default=1, ge=1)
    """Number of ingress processes that share the port."""

    max_event_bytes: int = Field(default=1024 * 1024, ge=1024, le=LARGEST_EVENT_BYTES)
    """Largest accepted event, in bytes; larger ones get 413. At most 31457280 (30 MiB): a larger one would not fit into
    the memory of the router's Kafka client, and block the events after it."""

    max_pending_events: int = Field(default=20_000, ge=1)
    """Events per ingress process that Kafka has not confirmed yet; more get 429 with Retry-After."""

    max_connections: int = Field(default=4096, ge=1)
    """Concurrent connections per ingress process (fewer if the limit of open files is low); more get 503."""

    max_arriving_mib: int = Field(default=128, ge=1)
    """Memory per ingress process for incomplete requests, in MiB; more get 503."""

    store_timeout_seconds: float = Field(default=5, gt=0)
    """Seconds that the ingress waits for Kafka to confirm an event before it responds with 503."""

    broker_ttl: int = Field(default=255, ge=1)
    """Initial and highest `knativebrokerttl` of an event in a Broker. It limits how often replies can enter a Broker
    again."""

    dispatchers: int = Field(default=1, ge=1)
    """Dispatcher tasks; each owns a share of the partitions of `penstock.matched`."""

    max_in_flight: int = Field(default=100, ge=1)
    """Concurrent requests per route; the annotation `penstock.dev/max-in-flight` overrides it."""

    max_outstanding: int = Field(default=2000, ge=1)
    """Unfinished deliveries per route and partition, including those that wait for a retry."""

    max_outstanding_total: int = Field(default=100_000, ge=1)
    """Unfinished deliveries per dispatcher task over all routes; beyond that each route is limited to a few."""

    delivery_memory_mib: int = Field(default=64, ge=1)
    """Memory for events per dispatcher task, in MiB; other events are read again from Kafka when they are due."""

    catch_up_records: int = Field(default=500, ge=1)
    """Records read at a time for a route that is behind, before the next such route."""

    max_in_flight_total: int = Field(default=512, ge=1)
    """Concurrent requests per dispatcher task, over all routes."""

    delivery_timeout_seconds: float = Field(default=600, gt=0)
    """Timeout of a delivery attempt, in seconds, if the delivery spec sets none."""

    deliver_allow: Networks = []
    """Networks (`10.1.0.0/16,…`) to which events may be delivered although a wider one is denied by `deliver_deny` or
    by default (link-local and multicast). The most specific network decides."""

    deliver_deny: Networks = []
    """Networks to which no event is delivered. `0.0.0.0/0,::/0` allows only the networks in `deliver_allow`."""

    deliver_loopback: bool | None = None
    """Whether events may be delivered to this machine (127.0.0.0/8, ::1). Empty: only with the embedded API."""

    deliver_namespaces: dict[str, DestinationLists] = {}
    """Lists for a namespace, which take precedence: `[deliver_namespaces.team]` with `allow` and `deny`."""

    cursor_flush_ms: int = Field(default=100, ge=1)
    """Milliseconds between writes of delivery cursors; after a crash deliveries of this period may be repeated."""

    loss_warning_hours: float = Field(default=24, gt=0)
    """Hours for which the status of a Trigger or Subscription warns of events that Kafka removed before delivery."""

    history: bool = True
    """Whether all events and delivery attempts are stored in two tables (see `docs/history.md`), for `penstock sql`,
    `events` and `trace` after Kafka has removed them. Needs the extra `history` of the package; without it `penstock
    dev` shows a notice and stores no history. Roles that run on their own need a process of the role `history`."""

    history_uri: str | None = None
    """Folder of the tables, or a URI that Spark can write to. Empty: `history` in the data folder."""

    history_days: int = Field(default=30, ge=1)
    """Days for which the tables keep events and attempts; older days are removed."""

    history_mib: int = Field(default=4096, ge=64)
    """Disk space of both tables together, in MiB; the oldest days are removed first, then the oldest part of today."""

    broker_classes: Names = ["Penstock", "MTChannelBasedBroker", "Kafka"]
    """Broker classes served here. Brokers of other classes get a condition that says so; in an existing cluster they
    are ignored."""

    default_broker_class: str = "Penstock"
    """Class of a Broker without a class annotation."""

    filters_on_data: bool = True
    """Whether filters may use the data of events (dialect `data`), which Knative does not have. Existing filters
    continue to work when it is turned off. See `docs/filters.md`."""

    images: dict[str, Annotated[ImageCommand, BeforeValidator(_image_command)]] = {}
    """Programs to run for images of Pods: `[images]` with `"*/mine*" = ["python", "-m", "mine"]`. The first matching
    pattern is used, before the built-in images. `[]` runs the Pod's own command. A table `[images."*/mine*"]` has
    `command`, `namespaces` (whose Pods may use the image) and `allow_env`. See `docs/pods.md`."""

    kubeconfig: Path | None = None
    """Kubeconfig of an existing cluster for the controllers; `in-cluster` uses the ServiceAccount of the Pod. Empty:
    the embedded API."""

    signing_key_days: float = Field(default=90, ge=1)
    """Days after which the embedded API uses a new key to sign tokens of ServiceAccounts. The old key is accepted for
    the same time again, which is also the longest validity of a token."""

    oidc_issuers: Names = []
    """Further OpenID Connect issuers whose tokens the ingress accepts if `authentication-oidc` is enabled: URLs with
    `/.well-known/openid-configuration`. See `docs/security.md`."""

    webhook_port: int = Field(default=9443, ge=0, le=65535)
    """Port of the admission webhook (HTTPS) that the API server of an existing cluster calls. 0 picks a free one."""

    lease_namespace: str | None = None
    """Namespace of the Leases for leader election of control and pipeline, with `kubeconfig`. Empty: that of the
    kubeconfig's context, or of the Pod."""

    api_requests_per_second: float = Field(default=200, gt=0)
    """Requests per second per user of the embedded API, with bursts of twice as many; more get 429 with Retry-After.
    Administrators (`system:masters`) and penstock's own processes are exempt."""

    api_max_connections: int = Field(default=12_000, ge=16)
    """Concurrent connections to the embedded API, including watches; more get 503."""

    api_audit_log: Path | None = None
    """File for an audit log of the embedded API: a line of JSON (audit.k8s.io/v1) per request, without bodies and
    tokens. Empty: no audit log."""

    secrets_key_file: Path | None = None
    """File with keys for the encryption of Secrets in `api.db`: lines `NAME:KEY` with 32 random bytes in base64. The
    first encrypts, all decrypt; see `docs/security.md`. If empty, and without `secrets_key_command`, Secrets are not
    encrypted; only the owner of the file can read it."""

    secrets_key_command: Command | None = None
    """Command that prints the passphrase of the key instead, such as `["pass", "show", "penstock"]`."""

    address_base: str | None = None
    """Base URL of the ingress for producers, used in `status.address`. Empty: `http://<host>:<port>`, with the
    machine's name if `host` is a wildcard address."""

    tls_address_base: str | None = None
    """The same for HTTPS. Empty: `https://`, the host of `address_base` or else `host`, and `tls_port`."""

    tls: bool = False
    """Whether metrics, probes and the console use HTTPS, with the certificate of the ingress."""

    tls_cert_file: Path | None = None
    """File with the certificate chain of servers (PEM), such as `tls.crt` of a Secret of cert-manager. It is read again
    when it changes. Empty: a certificate of the data folder's own CA."""

    tls_key_file: Path | None = None
    """File with the private key of that certificate (PEM, without a password)."""

    tls_ca_file: Path | None = None
    """File with the CA certificates for clients, used for `CACerts` in addresses. Empty: none, which means the system's
    CAs; or the data folder's own CA if `tls_cert_file` is empty."""

    adopt_routes: bool = False
    """Whether the control plane adopts routes in Kafka that belong to another Kubernetes API. Routes without an object
    in this API are removed, with their undelivered events. Set it for one start only."""

    resync_seconds: float = Field(default=300, gt=0)
    """Seconds after which the controllers reconcile every object even if nothing has changed."""

    drain_seconds: float = Field(default=5, ge=0)
    """Seconds for each component to finish its work when the stack stops."""

    verbose: bool = False
    """Whether to show the logs of all components on the terminal, at level debug."""

    @field_validator("spark_conf", "images", "deliver_namespaces", mode="before")
    @classmethod
    def _read_json(cls, value: object) -> object:
        """Parses the table of a flag or variable, which is JSON."""
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("kafka_conf", mode="before")
    @classmethod
    def _flatten(cls, value: object) -> object:
        """Flattens the nested tables that TOML makes of names without quotes."""
        table = json.loads(value) if isinstance(value, str) else value
        return kafka_properties.flat(table) if isinstance(table, Mapping) else table

    @field_validator("kafka_conf")
    @classmethod
    def _check_kafka_conf(cls, value: Mapping[str, kafka_properties.Value]) -> Mapping[str, kafka_properties.Value]:
        """Rejects properties that cannot be applied to all clients."""
        if wrong := kafka_properties.wrong_with(value):
            raise ValueError("; ".join(wrong))
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any, field: ValidationInfo) -> Any:
        """An empty variable is an empty setting."""
        may_be_empty = field.field_name is not None and cls.model_fields[field.field_name].default is None
        return None if value == "" and may_be_empty else value

    @property
    def history_root(self) -> str:
        """The folder or URI of the tables."""
        if self.history_uri is not None and "://" in self.history_uri:
            return self.history_uri.rstrip("/")
        return str(Path(self.history_uri or self.data_dir / "history").expanduser().absolute())

    @property
    def bootstrap(self) -> str:
        """Kafka's addresses, embedded or given."""
        return self.kafka or f"127.0.0.1:{self.kafka_port}"

    @property
    def embedded_kafka_dir(self) -> Path:
        """Folder of the embedded Kafka. It may be on another disk."""
        return self.data_dir / "kafka"

    @property
    def on_cluster(self) -> bool:
        """Whether Spark is not local."""
        return self.spark_master is not None and not self.spark_master.startswith("local")

    @property
    def task_slots(self) -> int:
        """Tasks that must run at the same time: two generations of the router's query during a switch, the dispatchers,
        and two for other work of Spark."""
        return 2 * self.partitions + self.dispatchers + 2

    @property
    def max_record_bytes(self) -> int:
        """Largest Kafka record: an event of the largest size and its headers."""
        return self.max_event_bytes + HEADER_BYTES

    @property
    def max_matched_bytes(self) -> int:
        """Largest record that the router writes: the largest event record with a list of routes."""
        return self.max_record_bytes + ROUTE_LIST_BYTES

    @property
    def ingress_url(self) -> str:
        """Base URL of the ingress for clients."""
        return (self.address_base or f"http://{hosts.reachable(self.host)}:{self.port}").rstrip("/")

    @property
    def scheme(self) -> str:
        """URL scheme of metrics, probes and the console."""
        return "https" if self.tls else "http"

    @property
    def tls_ingress_url(self) -> str:
        """The same for HTTPS."""
        named = urlsplit(self.address_base or "").hostname
        host = hosts.in_url(named) if named else hosts.reachable(self.host)
        return (self.tls_address_base or f"https://{host}:{self.tls_port}").rstrip("/")

    @property
    def console_url(self) -> str:
        """URL of the console for browsers on this machine."""
        host = "127.0.0.1" if self.host in hosts.EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{host}:{self.console_port}/"

    @property
    def api_url(self) -> str:
        """URL of the embedded Kubernetes API, also for other machines."""
        return f"https://{hosts.reachable(self.host)}:{self.api_port}"
