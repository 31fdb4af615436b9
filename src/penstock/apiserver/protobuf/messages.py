"""The messages of Kubernetes' protobuf, and rules for their JSON form that the descriptors lack.

Both are made by `make protobuf` from the Go modules of Kubernetes: the descriptors from their .proto files, the rules
from their Go types, since only those show whether a zero is a value or means absent.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

META = "k8s.io.apimachinery.pkg.apis.meta.v1"
RUNTIME = "k8s.io.apimachinery.pkg.runtime"
EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"


class MessageRules(msgspec.Struct, frozen=True):
    """How one message differs from its JSON form."""

    inline: frozenset[str] = frozenset()
    """Fields that are replaced by their parts."""
    renamed: dict[str, str] = {}
    kept: frozenset[str] = frozenset()
    """Fields whose zero is a value."""
    list: bool = False
    """Whether the message stands for the list in its only field."""


NO_RULES = MessageRules()


def message(name: str, pool: str = "kubernetes") -> Message:
    """A new message of this full name; raises KeyError if there is none."""
    made: Message = GetMessageClass(_descriptor(name, pool))()
    return made


@cache
def rules() -> dict[str, MessageRules]:
    """The rules by the full name of the message; most messages have none."""
    return msgspec.json.decode(_data("kubernetes.json"), type=dict[str, MessageRules])


def kind_message(api_version: str, kind: str) -> Message:
    """A new message of a kind; raises KeyError if the kind has none."""
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        package = META
    elif group == "apiextensions.k8s.io":
        package = EXTENSIONS
    else:
        package = f"k8s.io.api.{group.partition('.')[0] or 'core'}.{version}"
    return message(f"{package}.{kind}")


@cache
def _descriptor(name: str, pool: str) -> Descriptor:
    return _pool(pool).FindMessageTypeByName(name)


@cache
def _pool(name: str) -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(_data(f"{name}.binpb")).file:
        pool.Add(file)
    return pool


def _data(name: str) -> bytes:
    return files("penstock.apiserver.protobuf").joinpath(name).read_bytes()
