"""The API server without HTTP: a Request and who sends it in, a Response out."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pumice.kube.transport import Request, Response
from pumice.local.apiserver import bootstrap, crds, failures, patching, scaling
from pumice.local.apiserver.access import AccessReviews
from pumice.local.apiserver.admission import Admission
from pumice.local.apiserver.authentication import Authenticator
from pumice.local.apiserver.backend import Backend
from pumice.local.apiserver.decoding import read_typed
from pumice.local.apiserver.deleting import Remover, read_options
from pumice.local.apiserver.disruption import Budgets
from pumice.local.apiserver.event_retention import EventRetention
from pumice.local.apiserver.garbage import Housekeeping
from pumice.local.apiserver.pages import Pages
from pumice.local.apiserver.pod_subresources import PodCalls
from pumice.local.apiserver.rbac import Authorizer, Question
from pumice.local.apiserver.reading import Reader
from pumice.local.apiserver.registry import UNRECONCILED
from pumice.local.apiserver.representations import PLAIN
from pumice.local.apiserver.request_parsing import Call, Caller, require_servable, resolve
from pumice.local.apiserver.store import Broken, Store, decode, encode
from pumice.local.apiserver.tables import TableMaker
from pumice.local.apiserver.writing import Writer
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.instant import Instant
    from pumice.local.apiserver.admission import Hook
    from pumice.local.apiserver.history import Change, Entry
    from pumice.local.apiserver.webhooks import Dispatch

WARNINGS_MAX = 16
WARNING_CHARS_MAX = 512
_JSON = {"content-type": "application/json"}


class Settings(Value):
    """What a server is told when it starts; every field has a sensible default for a test."""

    now: Callable[[], Instant] = time.time_ns
    chance: random.Random = msgspec.field(default_factory=random.SystemRandom)
    hooks: Sequence[Hook] = ()
    dispatch: Dispatch | None = None  # how webhooks are called
    tokens: Mapping[str, Caller] = msgspec.field(default_factory=dict)
    signing_key: bytes = b""  # empty: a fresh one, so tokens of service accounts end with the process
    certificate: str = ""  # of the authority that clients should trust, in PEM
    address: str = "127.0.0.1"
    port: int = 6443
    alpha: frozenset[str] = frozenset()
    definitions: Sequence[bytes] = ()  # CRDs that are there from the start; known to be good, and not checked again


class Server:
    """`handle` answers; `async with` runs the housekeeping beside it."""

    def __init__(self, settings: Settings | None = None, *, store: Store | None = None) -> None:
        settings = settings or Settings()
        self.backend = Backend(store or Store(), now=settings.now, chance=settings.chance, alpha=settings.alpha)
        key = settings.signing_key or settings.chance.getrandbits(256).to_bytes(32, "big")
        self.authenticator = Authenticator(self.backend, key=key, tokens=settings.tokens)
        self.authorizer = Authorizer(self.backend)
        admission = Admission(self.backend, list(settings.hooks), settings.dispatch)
        admission.guards.append(self.authorizer.guard)
        self.reader = Reader(self.backend, TableMaker(self.backend))
        self.writer = Writer(self.backend, admission)
        self.remover = Remover(self.backend, admission)
        budgets = Budgets(self.backend)
        self.pods = PodCalls(self.backend, self.remover, budgets)
        self.housekeeping = Housekeeping(self.backend, self.remover, budgets)
        self.reviews = AccessReviews(self.backend, self.authorizer, self.authenticator)
        self.pages = Pages(self.backend, f"{settings.address}:{settings.port}")
        self._task: asyncio.Task[None] | None = None
        self._install(settings)

    def _install(self, settings: Settings) -> None:
        """Serves the definitions that a journal brought back, and puts in what a fresh server holds."""
        defaults = bootstrap.NamespaceDefaults(self.backend, settings.certificate)
        for entry in self.backend.store.collection(crds.COLLECTION).entries():
            self._serve_definition(entry)
        self.backend.store.listeners.append(self._follow_definitions)
        for collection, obj in bootstrap.initial_objects(settings.address, settings.port):
            defaults.install(collection, obj)
        for body in settings.definitions:
            defaults.install(crds.COLLECTION, crds.accepted(decode(body), self.backend.timestamp()))
        EventRetention(self.backend)
        self.housekeeping.look_at_everything()

    def _follow_definitions(self, change: Change) -> None:
        if change.collection != crds.COLLECTION:
            return
        if change.after is not None:
            self._serve_definition(change.after)
        else:
            assert change.before is not None
            self._withdraw_definition(change.before)

    def _withdraw_definition(self, entry: Entry) -> None:
        plural, _, group = entry.name.partition(".")
        self.backend.registry.withdraw(group, plural)

    def _serve_definition(self, entry: Entry) -> None:
        versions = crds.versions_of(entry.body)
        self._withdraw_definition(entry)
        self.backend.registry.serve(versions)
        if versions:
            paths = tuple(versions[0].selectable.values())
            self.backend.store.set_field_paths(versions[0].resource.collection, paths)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.housekeeping.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def handle(self, request: Request, caller: Caller) -> Response:
        """The answer to one request; never raises for what a client did."""
        call: Call | None = None
        try:
            call = resolve(request, caller, self.backend.registry)
            if call is None:
                self.authorizer.require(caller, Question(verb=request.method.lower(), path=request.path))
                return self.pages.answer(request)
            self._authorize(call)
            require_servable(call)
            response = await self._serve(call)
            if call.verb not in {"get", "list", "watch"}:
                await self.backend.wait_settled()
        except failures.Failure as failure:
            response = _failure_response(failure)
        except Broken as error:
            response = _failure_response(failures.internal(str(error)))
        except RecursionError:
            response = _failure_response(failures.bad_request("the body is nested too deeply"))
        return _with_warnings(response, call.warnings) if call is not None and call.warnings else response

    def _authorize(self, call: Call) -> None:
        self.authorizer.require(
            call.caller,
            Question(
                verb=call.verb,
                group=call.resource.group,
                plural=call.resource.plural,
                subresource=call.subresource,
                namespace=call.namespace if call.resource.collection != "namespaces" else call.name,
                name=call.name,
            ),
        )

    async def _serve(self, call: Call) -> Response:
        if call.subresource and call.subresource not in {"status", "finalize"}:
            return await self._serve_subresource(call)
        match call.verb:
            case "get":
                return await self.reader.get(call)
            case "list":
                return await self.reader.list_page(call)
            case "watch":
                return await self.reader.watch(call)
            case "create":
                return await self._create(call)
            case "update":
                body, created = await self.writer.update(call)
                return self._object(call, body, created=created)
            case "patch":
                body, created = await patching.patch(self.writer, call)
                return self._object(call, body, created=created)
            case "delete":
                return Response(200, _JSON, await self.remover.delete(call, read_options(call)))
        ended = await self.remover.delete_collection(call, read_options(call))
        renderer = self.reader.renderer(call, PLAIN)
        return Response(200, _JSON, renderer.many(ended, {"resourceVersion": str(self.backend.store.version)}))

    async def _create(self, call: Call) -> Response:
        if call.resource.verbs == ("create",):
            if call.resource.plural == "bindings":
                return self.pods.bind(call)
            return Response(
                201, _JSON, encode(self.reviews.answer(call, read_typed(call.request, call.resource.type_name)))
            )
        if call.resource.collection in UNRECONCILED:
            call.warnings.append(
                f"{call.resource.plural} are stored but nothing acts on them here: this embedded server has no controller for {call.resource.kind}"
            )
        return self._object(call, await self.writer.create(call), created=True)

    def _object(self, call: Call, body: bytes, *, created: bool) -> Response:
        renderer = self.reader.renderer(call)
        headers = {"content-type": renderer.form.content_type}
        return Response(201 if created else 200, headers, renderer.one(body) if renderer.form.kind else body)

    async def _serve_subresource(self, call: Call) -> Response:
        match call.subresource:
            case "binding":
                return self.pods.bind(call)
            case "eviction":
                return await self.pods.evict(call)
            case "log":
                return await self.pods.log(call)
            case "token":
                return Response(
                    201,
                    _JSON,
                    encode(
                        self.reviews.request_token(call, read_typed(call.request, "authentication.v1.TokenRequest"))
                    ),
                )
            case "scale":
                return Response(200, _JSON, encode(await self._scale(call)))
            case "ephemeralcontainers" | "resize":
                text = (
                    f"{call.resource.plural}/{call.subresource} needs a kubelet, and the nodes of this server have none"
                )
                raise failures.Failure(501, "NotImplemented", text)
        raise failures.method_not_allowed(call.resource.plural, call.resource.group)

    async def _scale(self, call: Call) -> dict[str, Any]:
        if call.verb == "get":
            entry = self.backend.entry(call.resource, call.namespace, call.name)
            return scaling.scale_of(self.writer, call, self.backend.load(call.resource, entry))
        return await scaling.write_scale(self.writer, call)


def _failure_response(failure: failures.Failure) -> Response:
    return Response(failure.status, _JSON | failure.headers, encode(failure.as_status()))


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    """The same answer with a Warning header, as kubectl prints them."""
    texts = []
    for warning in dict.fromkeys(warnings[:WARNINGS_MAX]):
        flat = " ".join(warning.split())[:WARNING_CHARS_MAX].replace("\\", "\\\\").replace('"', '\\"')
        texts.append(f'299 - "{flat}"')
    return msgspec.structs.replace(response, headers={**response.headers, "warning": ", ".join(texts)})
