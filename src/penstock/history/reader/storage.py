"""How tables that are not on this machine are reached without Spark: what Spark is told of S3 holds here as well. Pure.

Without such properties delta-rs looks for credentials itself, in its own variables (`AWS_…`, `AZURE_…`, `GOOGLE_…`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.history.schema.problem import HistoryProblem

S3A = "spark.hadoop.fs.s3a."
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "azure"})
PATIENCE = {"max_retries": "3", "retry_timeout": "15s", "timeout": "30s"}
"""Who asks must not wait for minutes for a place that is not there: a route that begins in the past waits for it."""
_SAME = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
}
_REFUSED = ("403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Unauthorized", "401")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def storage_options(root: str, spark_conf: Mapping[str, object]) -> dict[str, str]:
    """Options of delta-rs for tables under this root: what properties of Spark mean, and how long it may take."""
    return {**PATIENCE, **_given(spark_conf)} if root.partition("://")[0] in OBJECT_STORES else {}


def _given(spark_conf: Mapping[str, object]) -> dict[str, str]:
    given = {name.removeprefix(S3A): str(value) for name, value in spark_conf.items() if name.startswith(S3A)}
    options = {option: given[name] for name, option in _SAME.items() if name in given}
    if endpoint := given.get("endpoint"):
        plain = given.get("connection.ssl.enabled", "true").lower() == "false" or endpoint.startswith("http://")
        options["aws_endpoint_url"] = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
        options.setdefault("aws_region", "us-east-1")  # a place of one's own has none, and one must be named
        if plain:
            options["aws_allow_http"] = "true"
    return options


def unreadable(place: str, error: BaseException) -> HistoryProblem:
    """Why a table cannot be read, and what to look at."""
    lines = _COLOURS.sub("", str(error) or type(error).__name__).replace("↳", "").splitlines()
    told = ": ".join(dict.fromkeys(line.strip().rstrip(".:") for line in lines if line.strip()))
    if "Unknown scheme" in told:
        return HistoryProblem(
            f"{place}: nothing is known of {place.partition('://')[0]}://.",
            "Look at history_uri: a folder, or s3a://, hdfs://, gs://, abfss:// or file://.",
        )
    remedy = ""
    if "://" in place:
        remedy = "Look at history_uri, and whether the place answers and may be read; --engine spark asks Spark."
        if any(word in told for word in _REFUSED):
            remedy = f"Its credentials were refused: look at {S3A}… in spark_conf, or at AWS_… in the environment."
    return HistoryProblem(f"The table {place} cannot be read: {told[:400]}.", remedy)
