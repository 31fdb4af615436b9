"""Why writing failed, in a line for people: what happened, and which setting to look at."""

from __future__ import annotations

import re

from penstock.engine.problem import Problem
from penstock.history.reader.storage import S3A
from penstock.history.schema.problem import HistoryProblem
from penstock.settings import Settings

MOST_CHARACTERS = 300

_REMEDIES = (
    (
        r'No FileSystem for scheme "?([\w+.-]+)',
        "Look at history_uri: Spark knows no {}://. Jars of others are named in spark_conf, by spark.jars.",
    ),
    (
        r"Class (org\.apache\.hadoop\.fs\.\S+|com\.google\.\S+) not found",
        "The jars that have {} are missing: name them in spark_conf, by spark.jars. For s3a:// these are hadoop-aws in "
        "the version of Spark's Hadoop, and what it depends on.",
    ),
    (
        "AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 403|NoAuthWithAWSException",
        f"Its credentials were refused: look at {S3A}… in spark_conf, or at AWS_… in the environment.",
    ),
    (
        "NoSuchBucket|UnknownStoreException",
        "Look at history_uri: the bucket is not there.",
    ),
)
"""What a failure of another file system looks like, and what to do then."""


def told(error: Exception, settings: Settings) -> str:
    """Why writing failed, in a line."""
    if isinstance(error, HistoryProblem | Problem):
        return f"{error.what} {error.remedy}".strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or settings.history_root}: {error.strerror}"
    text = str(error)
    for pattern, remedy in _REMEDIES:
        if "://" in settings.history_root and (found := re.search(pattern, text)) is not None:
            reason = _cause(text) or type(error).__name__
            return f"{settings.history_root}: {reason.rstrip('.')}. {remedy.format(*found.groups())}"
    return (_cause(text) or f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")[:MOST_CHARACTERS]


def _cause(text: str) -> str | None:
    """The first line of a Java stack trace that names an exception."""
    for line in text.splitlines():
        cause = line.strip()
        if cause.startswith("Caused by: ") or "Exception: " in cause:
            return cause.removeprefix("Caused by: ").removeprefix(": ")[:MOST_CHARACTERS]
    return None
