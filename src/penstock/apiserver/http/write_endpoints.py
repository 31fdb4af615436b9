"""Create, update, patch and delete over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.apiserver import errors
from penstock.apiserver.access.identity import User
from penstock.apiserver.access.policy import Authorizer
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.documents import encode, meta
from penstock.apiserver.http import requests
from penstock.apiserver.http.read_endpoints import selection
from penstock.apiserver.http.rendering import Renderer
from penstock.apiserver.http.requests import ResourcePath
from penstock.apiserver.http.responses import json_response, list_response, object_response
from penstock.apiserver.kinds.scale import scale_of, scaled
from penstock.apiserver.kinds.schema import walker_of
from penstock.apiserver.store.storage import Store, Transaction
from penstock.apiserver.verbs import patches
from penstock.apiserver.verbs.deletion import DeleteOptions
from penstock.apiserver.verbs.writing import Verbs, WriteTarget
from penstock.kube.kinds import Obj


class WriteEndpoints:
    """Create, update, patch and delete."""

    def __init__(self, store: Store, verbs: Verbs, authorizer: Authorizer) -> None:
        self._store, self._verbs, self._authorizer = store, verbs, authorizer

    async def create(self, request: Request, path: ResourcePath) -> Response:
        """POST to a collection."""
        given = await _read_object(request)
        _check_namespaced(path)
        target = _target(request, path)
        stored = await self._store.write(
            lambda tx: self._verbs.create(tx, target, given), dry_run=requests.dry_run(request.query_params)
        )
        return _response(request, target, stored, 201)

    async def update(self, request: Request, path: ResourcePath) -> Response:
        """PUT of an object or its status."""
        given = await _read_object(request)
        target = _target(request, path)
        if path.subresource != "scale":
            self._verbs.check_identity(target, given)
        stored = await self._store.write(
            lambda tx: self._verbs.update(tx, target, lambda old: _replaced(old, given, target)),
            dry_run=requests.dry_run(request.query_params),
        )
        return _response(request, target, stored)

    async def patch(self, request: Request, path: ResourcePath) -> Response:
        """PATCH of an object or its status, in any of the four ways."""
        media, query = requests.media_type(request), request.query_params
        body = await requests.read_body(request)
        target, dry = _target(request, path), requests.dry_run(query)
        if media == patches.APPLY and path.subresource != "scale":
            if not query.get("fieldManager"):
                complaint = ("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
                raise errors.invalid("meta.k8s.io", "PatchOptions", "", [complaint])
            wanted, force = requests.parse_object(body, media), query.get("force") in ("true", "1")
            stored, created = await self._store.write(
                lambda tx: self._apply(tx, request.state.user, target, wanted, force=force), dry_run=dry
            )
            return _response(request, target, stored, 201 if created else 200)
        if media not in (patches.MERGE, patches.JSON) and (media != patches.STRATEGIC or path.kind.custom):
            raise errors.unsupported_media(", ".join(_patch_types(path)))
        patch = requests.parse_document(body, media)
        stored = await self._store.write(
            lambda tx: self._verbs.update(tx, target, lambda old: _patched(old, patch, media, target)), dry_run=dry
        )
        return _response(request, target, stored)

    def _apply(self, tx: Transaction, user: User, target: WriteTarget, wanted: Obj, *, force: bool) -> tuple[Obj, bool]:
        """Applies; creating an object needs the verb `create` besides `patch`, as in Kubernetes."""
        stored, created = self._verbs.apply(tx, target, wanted, force=force)
        if created:
            kind = target.kind
            create = AccessRequest("create", kind.group, kind.plural, namespace=target.namespace, name=target.name)
            self._authorizer.demand(user, create)
        return stored, created

    async def delete(self, request: Request, path: ResourcePath) -> Response:
        """DELETE of an object."""
        options, dry = await _read_options(request)
        target = _target(request, path)
        obj, gone = await self._store.write(lambda tx: self._verbs.delete(tx, target, options), dry_run=dry)
        if not gone:
            return _response(request, target, obj)
        details = {"name": path.name, "kind": path.kind.plural, "uid": meta(obj)["uid"]}
        if path.kind.group:
            details["group"] = path.kind.group
        return object_response(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    async def delete_collection(self, request: Request, path: ResourcePath) -> Response:
        """DELETE of the objects that the selectors match."""
        options, dry = await _read_options(request)
        keep, _ = selection(request, path)
        namespace = path.namespace if path.kind.namespaced else ""
        is_whole = True
        async for page in self._store.parts(path.kind.resource, namespace, keep=keep):
            work = partial(self._delete_all, request=request, path=path, bodies=page.bodies, options=options)
            deleted = await self._store.write(work, dry_run=dry)
            is_whole = is_whole and page.next_key is None
            if is_whole:
                renderer = Renderer(path.kind, requests.accepted_form(request.headers.get("accept")))
                bodies = [encode(obj) for obj in deleted]
                return list_response(renderer.many(bodies, {"resourceVersion": str(page.version)}))
        # They were too many to be returned in one response.
        return object_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _delete_all(
        self, tx: Transaction, request: Request, path: ResourcePath, bodies: list[bytes], options: DeleteOptions
    ) -> list[Obj]:
        deleted = []
        for body in bodies:
            details = meta(requests.parse_object(body, "application/json"))
            one = ResourcePath(path.kind, details.get("namespace"), details["name"])
            target = _target(request, one)
            # It may have been collected already, as the dependent of an object deleted before.
            if tx.get(path.kind.resource, target.namespace, target.name) is not None:
                deleted.append(self._verbs.delete(tx, target, options)[0])
        return deleted


def _patch_types(path: ResourcePath) -> list[str]:
    applied = [patches.APPLY] * (path.subresource != "scale")
    return [patches.JSON, patches.MERGE, *applied, *[patches.STRATEGIC] * (not path.kind.custom)]


async def _read_object(request: Request) -> Obj:
    return requests.parse_object(await requests.read_body(request), requests.media_type(request))


async def _read_options(request: Request) -> tuple[DeleteOptions, bool]:
    body = await requests.read_body(request)
    return requests.delete_options(body, requests.media_type(request), request.query_params)


def _check_namespaced(path: ResourcePath) -> None:
    if path.kind.namespaced and path.namespace is None:
        raise errors.bad_request("an object of this kind is created in a namespace")


def _target(request: Request, path: ResourcePath) -> WriteTarget:
    query = request.query_params
    agent = request.headers.get("user-agent", "unknown").partition("/")[0]
    return WriteTarget(
        path.kind,
        (path.namespace or "") if path.kind.namespaced else "",
        path.name,
        request.state.user.name,
        (query.get("fieldManager") or agent)[:128],
        path.subresource,
        requests.field_validation(query),
        request.state.user.groups,
    )


def _replaced(old: Obj, given: Obj, target: WriteTarget) -> Obj:
    if target.subresource == "scale":
        return scaled(old, given)
    kind = target.kind
    if kind.custom and not meta(given).get("resourceVersion"):
        sentence = "Invalid value: 0x0: must be specified for an update"
        complaint = ("metadata.resourceVersion", "FieldValueInvalid", sentence)
        raise errors.invalid(kind.group, kind.plural, target.name, [complaint])
    return given


def _patched(old: Obj, patch: Any, media: str, target: WriteTarget) -> Obj:
    if target.subresource == "scale":
        return scaled(old, _merged(scale_of(old), patch, media, target))
    return _merged(old, patch, media, target)


def _merged(old: Obj, patch: Any, media: str, target: WriteTarget) -> Obj:
    if media == patches.JSON:
        result = patches.json(old, patch)
    elif media == patches.MERGE:
        result = patches.merge(old, patch)
    else:
        result = patches.strategic(old, patch, walker_of(target.kind))
    if not isinstance(result, dict):
        raise errors.bad_request("the patched object is not an object any more")
    return result


def _response(request: Request, target: WriteTarget, stored: Obj, status: int = 200) -> Response:
    form = requests.accepted_form(request.headers.get("accept"))
    if target.subresource == "scale":
        return json_response(encode(scale_of(stored)), status=status, as_yaml=form.yaml, warnings=target.warnings)
    # The stored object is already in the version of the request.
    renderer = Renderer(target.kind, form, request.query_params.get("includeObject", "Metadata"))
    body = encode(stored) if form.shape == "Object" else renderer.one(encode(stored))
    return json_response(body, status=status, as_yaml=form.yaml, warnings=target.warnings)
