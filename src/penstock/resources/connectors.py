"""What IntegrationSources and IntegrationSinks share: connectors, which upstream runs as images of Apache Camel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext
from penstock.resources.field_errors import FieldError, FieldErrors, missing, within

AWS = "aws"
NAME_LABEL = "app.kubernetes.io/name"
NOT_SUPPORTED = "ConnectorNotSupported"


def nothing_to_fill(obj: Obj, ctx: AdmissionContext) -> None:
    """The defaults of both kinds are those of their schemas."""


def connectors_of(spec: Mapping[str, Any], here: str) -> list[str]:
    """The connectors in the spec: the one that is available here, or others such as `aws.s3`."""
    aws = [f"{AWS}.{name}" for name, value in (spec.get(AWS) or {}).items() if name != "auth" and value is not None]
    return ([here] if spec.get(here) is not None else []) + aws


def check_connectors(spec: Obj, here: str, of_aws: Mapping[str, tuple[str, str]], what: str) -> FieldErrors:
    """What is wrong with them. `of_aws` are the fields that each connector needs, as complaints name them; `what` is
    `source` or `sink`."""
    asked = connectors_of(spec, here)
    if len(asked) != 1:
        said = f"only one {what} type can be set" if asked else f"at least one {what} type must be specified"
        return [FieldError(said, ("spec",))]
    group, _, connector = asked[0].partition(".")
    if group != AWS:
        return []
    aws = spec[AWS]
    errors = [] if _is_authorized(aws.get("auth") or {}) else [missing("auth.secret.ref.name")]
    needed = of_aws.get(connector, ())
    errors += [missing(path) for path in needed if not aws[connector].get(path.rpartition(".")[2])]
    return within(AWS, errors)


def environment_of(prefix: str, options: Mapping[str, Any]) -> list[dict[str, str]]:
    """The environment of a connector's program, as of Knative's images."""
    variables = {
        f"{prefix}_{name.upper()}": _text(value) for name, value in sorted(options.items()) if value is not None
    }
    return [{"name": name, "value": value} for name, value in variables.items() if value]


def not_supported(connector: str, here: str) -> str:
    """What a status says of a connector that is not here."""
    return f"spec.{connector} is not supported by penstock, which has no images of Apache Camel; spec.{here} is"


def _is_authorized(auth: Mapping[str, Any]) -> bool:
    secret = ((auth.get("secret") or {}).get("ref") or {}).get("name")
    return bool(secret or auth.get("serviceAccountName"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
