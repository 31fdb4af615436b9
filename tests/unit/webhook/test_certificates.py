"""The webhook's certificates: made once, renewed in time, trusted before they are shown."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from penstock.kube.errors import Conflict
from penstock.kube.kinds import Key, Kind, Obj
from penstock.web.certificates import is_signed_by, lasts_for, names_all
from penstock.web.tls_context import RenewedContext
from penstock.webhook import certificates as trust
from penstock.webhook.certificates import CertificateRotation, Certificates, certificates_in, renewed, secret_data

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = trust.host_names()


def test_the_first_certificates_are_for_the_service() -> None:
    made = renewed(None, HOSTS, NOW)
    assert is_signed_by(made.server.certificate, made.authority.certificate)
    assert names_all(made.server.certificate, ["penstock-webhook.knative-eventing.svc"])
    assert made.bundle == made.authority.certificate


def test_what_is_not_due_stays_the_very_same() -> None:
    made = renewed(None, HOSTS, NOW)
    assert renewed(made, HOSTS, NOW + timedelta(days=19)) is made


def test_a_server_certificate_that_ends_soon_is_renewed_under_the_same_authority() -> None:
    made = renewed(None, HOSTS, NOW)
    later = renewed(made, HOSTS, NOW + timedelta(days=21))
    assert later.authority == made.authority
    assert later.bundle == made.bundle
    assert lasts_for(later.server.certificate, timedelta(days=29), NOW + timedelta(days=21))


def test_a_new_authority_leaves_the_one_before_trusted_as_long_as_it_lasts() -> None:
    made = renewed(None, HOSTS, NOW)
    soon = NOW + timedelta(days=3650 - 300)
    later = renewed(made, HOSTS, soon)
    assert later.authority != made.authority
    assert later.bundle == later.authority.certificate + made.authority.certificate
    much_later = renewed(later, HOSTS, soon + timedelta(days=330))
    assert much_later.bundle == later.authority.certificate


def test_a_server_for_other_hosts_or_of_another_authority_is_renewed() -> None:
    made, other = renewed(None, HOSTS, NOW), renewed(None, HOSTS, NOW)
    assert names_all(renewed(made, ("new.example",), NOW).server.certificate, ["new.example"])
    mixed = Certificates(made.authority, other.server)
    assert is_signed_by(renewed(mixed, HOSTS, NOW).server.certificate, made.authority.certificate)


def test_a_secret_keeps_them() -> None:
    made = renewed(None, HOSTS, NOW)
    assert certificates_in(secret_data(made)) == made


@pytest.mark.parametrize("change", [{"ca-key.pem": ""}, {"server-cert.pem": "%%%"}, {"ca-cert.pem": None}])
def test_a_secret_that_somebody_broke_counts_as_none(change: Obj) -> None:
    assert certificates_in({**secret_data(renewed(None, HOSTS, NOW)), **change}) is None


def test_certificates_that_are_none_are_made_anew() -> None:
    made = renewed(None, HOSTS, NOW)
    data = secret_data(made) | {"ca-cert.pem": base64.b64encode(b"nonsense").decode()}
    assert names_all(renewed(certificates_in(data), HOSTS, NOW).server.certificate, HOSTS)


def test_the_bundle_goes_only_to_clients_of_this_service() -> None:
    ours = {"service": {"name": trust.SERVICE, "namespace": "knative-eventing"}}
    other = {"service": {"name": "other"}, "caBundle": "theirs"}
    obj = {"webhooks": [{"name": "a", "clientConfig": ours}, {"name": "b", "clientConfig": other}]}
    changed = trust.with_bundle(obj, b"pem")
    assert changed is not None
    assert [one["clientConfig"].get("caBundle") for one in changed["webhooks"]] == ["cGVt", "theirs"]
    assert trust.with_bundle(changed, b"pem") is None
    definition = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": ours}}}}
    changed = trust.with_bundle(definition, b"pem")
    assert changed is not None
    assert changed["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == "cGVt"
    assert trust.with_bundle({"spec": {}}, b"pem") is None


class Objects:
    """Stands for the cluster's API: objects with versions, and the refusal of a write that comes too late."""

    def __init__(self) -> None:
        self.stored: dict[str, Obj] = {}
        self.log: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        for kind, name in trust.bundle_holders():
            client = {"service": {"name": trust.SERVICE}}
            holder = {"clientConfig": client}
            obj: Obj = (
                {"webhooks": [holder]} if "Webhook" in kind.kind else {"spec": {"conversion": {"webhook": holder}}}
            )
            self.stored[name] = {**obj, "metadata": {"name": name, "resourceVersion": "1"}}

    async def read(self, kind: Kind, key: Key) -> Obj | None:
        return copy.deepcopy(self.stored.get(key.name))

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        assert "resourceVersion" not in obj["metadata"]
        return self._put(obj)

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        return self._put(obj)

    def _put(self, obj: Obj) -> Obj:
        hook, self.before_write = self.before_write, lambda: None
        hook()
        name = obj["metadata"]["name"]
        before = (self.stored.get(name) or {"metadata": {}})["metadata"].get("resourceVersion")
        if before != obj["metadata"].get("resourceVersion"):
            raise Conflict("the object has been modified")
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(int(before or 0) + 1)
        self.stored[name] = obj
        self.log.append(name)
        return obj

    def bundles(self) -> set[bytes]:
        found = [one for obj in self.stored.values() for one in trust._clients(obj)]
        return {base64.b64decode(one.get("caBundle", "")) for one in found}


class Context(RenewedContext):
    """Notes what was trusted when a certificate was shown."""

    def __init__(self, objects: Objects) -> None:
        super().__init__()
        self.shown: list[set[bytes]] = []
        self._objects = objects

    def show(self, certificate: bytes, key: bytes) -> None:
        super().show(certificate, key)
        self.shown.append(self._objects.bundles())


async def test_a_certificate_is_trusted_everywhere_before_it_is_shown() -> None:
    objects = Objects()
    context = Context(objects)
    await CertificateRotation(objects, context, lambda: NOW).rotate()
    held = certificates_in(objects.stored[trust.CERTIFICATES_SECRET]["data"])
    assert held is not None
    assert context.shown == [{held.bundle}]


async def test_two_replicas_agree_on_one_authority() -> None:
    objects = Objects()
    first = CertificateRotation(objects, Context(objects), lambda: NOW)
    second = CertificateRotation(objects, Context(objects), lambda: NOW)
    other = secret_data(renewed(None, HOSTS, NOW))

    def somebody_is_faster() -> None:
        metadata = {"name": trust.CERTIFICATES_SECRET, "resourceVersion": "9"}
        objects.stored[trust.CERTIFICATES_SECRET] = {"metadata": metadata, "data": other}

    objects.before_write = somebody_is_faster
    await first.rotate()
    await second.rotate()
    assert objects.stored[trust.CERTIFICATES_SECRET]["data"] == other
    held = certificates_in(other)
    assert held is not None
    assert objects.bundles() == {held.bundle}


async def test_a_round_in_which_nothing_is_due_writes_nothing() -> None:
    objects = Objects()
    context = Context(objects)
    rotation = CertificateRotation(objects, context, lambda: NOW)
    await rotation.rotate()
    objects.log.clear()
    await rotation.rotate()
    assert objects.log == []
    assert len(context.shown) == 1


async def test_a_running_server_shows_the_renewed_certificate() -> None:
    objects, clock = Objects(), [NOW]
    context = Context(objects)
    rotation = CertificateRotation(objects, context, lambda: clock[0])
    await rotation.rotate()
    given, first = context.context, context.current
    clock[0] += timedelta(days=25)
    await rotation.rotate()
    assert len(context.shown) == 2
    assert (context.context, context.current is first) == (given, False), "no context in use gets another certificate"


async def test_a_bundle_that_somebody_removed_is_put_back() -> None:
    objects = Objects()
    rotation = CertificateRotation(objects, Context(objects), lambda: NOW)
    await rotation.rotate()
    (client,) = trust._clients(objects.stored[trust.MUTATING])
    del client["caBundle"]
    await rotation.rotate()
    assert len(objects.bundles()) == 1
