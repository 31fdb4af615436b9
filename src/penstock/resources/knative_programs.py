"""The ConfigMaps that programs made with Knative's libraries, adapters and tests among them, read at their start.

Such programs may run here as Pods, and end at once where these are missing. The content is upstream's default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

_EXAMPLE = (
    "# Read by programs made with Knative's libraries, which may run here as Pods. penstock itself logs, measures and\n"
    "# traces as its settings say.\n"
)
_ENCODER = {
    "timeKey": "ts",
    "levelKey": "level",
    "nameKey": "logger",
    "callerKey": "caller",
    "messageKey": "msg",
    "stacktraceKey": "stacktrace",
    "lineEnding": "",
    "levelEncoder": "",
    "timeEncoder": "iso8601",
    "durationEncoder": "",
    "callerEncoder": "",
}
_ZAP = {
    "level": "info",
    "development": False,
    "outputPaths": ["stdout"],
    "errorOutputPaths": ["stderr"],
    "encoding": "json",
    "encoderConfig": _ENCODER,
}
CONFIGMAPS: Mapping[str, Mapping[str, str]] = {
    "config-logging": {
        "_example": _EXAMPLE,
        "zap-logger-config": json.dumps(_ZAP, indent=2),
        "loglevel.controller": "info",
        "loglevel.webhook": "info",
    },
    "config-observability": {"_example": _EXAMPLE},
    "config-tracing": {"_example": _EXAMPLE},
}
