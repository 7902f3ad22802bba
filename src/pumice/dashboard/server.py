"""The routes: pages, their live parts, signing in and out, files."""

from __future__ import annotations

import functools
import re
import secrets
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from aiohttp import web

from pumice.dashboard import actions, guard, rendering
from pumice.dashboard.action_routes import ActionRoutes
from pumice.dashboard.answers import Answers
from pumice.dashboard.live import Streams
from pumice.dashboard.pages import gang, gangs, health, history, nodes, overview, queues, timeline, what_if
from pumice.dashboard.pages.page import Page, PageRequest
from pumice.dashboard.sessions import SECRET_CHARS_MAX, Sessions
from pumice.errors import PumiceError
from pumice.kube.listener import Limits, Listener
from pumice.processes.access import Denied, token_of
from pumice.processes.questions import PARAMETERS
from pumice.runtime import silent
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from pumice.clock import Clock
    from pumice.dashboard.people import Authentication
    from pumice.dashboard.sessions import Session
    from pumice.dashboard.source import Source, Upstream
    from pumice.kube.client import Client
    from pumice.runtime import Log

PAGES = (
    Page("/", "Overview", "overview.html", overview.data),
    Page("/gangs", "Gangs", "gangs.html", gangs.data),
    Page("/gangs/{namespace}/{name}", "Gang", "gang.html", gang.data, in_menu=False),
    Page("/nodes", "Nodes", "nodes.html", nodes.data),
    Page("/queues", "Queues", "queues.html", queues.data),
    Page("/timeline", "Timeline", "timeline.html", timeline.data),
    Page("/history", "History", "history.html", history.data),
    Page("/what-if", "What if", "what_if.html", what_if.data),
    Page("/health", "Health", "health.html", health.data),
)
_SHARED = frozenset({"/", "/gangs", "/nodes", "/queues", "/timeline"})  # look the same for all who see the same
_STILL = frozenset({actions.PATH, "/what-if"})  # they say what was asked for, of the moment at which it was asked
LIMITS = Limits(connections=512)
BODY_BYTES_MAX = 64 * 2**10  # of a form
PATH_CHARS_MAX = 2_048
TRACE_FRAMES_MAX = 8  # of a mistake of ours, in the log
WAIT_S = 60.0  # for news of the scheduler, before asking again
THEMES = ("system", "light", "dark")
_OWN_PATH = re.compile(r"/([^/\\\x00-\x20][^\\\x00-\x20]*)?")  # browsers drop tabs, and take a backslash for a slash


class Settings(Value, kw_only=True):
    """How it is served."""

    listen: str = "127.0.0.1:0"
    hosts: tuple[str, ...] = ()
    title: str = ""  # which cluster
    writes: bool = False  # whether people may do something here, each with their own rights


class _Redirect(PumiceError):
    """What was asked for is on another page."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


_PROBES = frozenset({"/livez", "/readyz"})  # it serves as soon as it listens: without a leader its pages say so


class Dashboard:
    """Serves the pages; belongs to one event loop. `start` first, `stop` in the end."""

    def __init__(
        self,
        source: Source,
        leader: Upstream,
        controllers: Upstream,
        client: Client,
        authentication: Authentication,
        *,
        clock: Clock,
        settings: Settings,
        log: Log = silent,
    ) -> None:
        self._source = source
        self._client = client
        self._authentication = authentication
        self._clock = clock
        self._settings = settings
        self._log = log
        self._answers = Answers(leader, controllers, source, client, clock)
        self._sessions = Sessions(authentication, clock)
        self._hosts = guard.Hosts(settings.hosts, local=is_local(settings.listen))
        self._requests = guard.Rate(guard.REQUESTS_PER_S, guard.REQUESTS_AT_ONCE, clock)
        self._sign_ins = guard.Rate(guard.SIGN_INS_PER_S, guard.SIGN_INS_AT_ONCE, clock)
        shared = _SHARED - {"/queues"} if settings.writes else _SHARED  # with buttons, each looks different
        self._streams = Streams(source, self._sessions, clock, self._values, shared)
        self._listener: Listener | None = None
        self.port = 0

    async def start(self) -> int:
        """The port on which it listens."""
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._guarded])
        for page in PAGES:
            application.router.add_get(page.path, functools.partial(self._page, page))
        application.router.add_post("/what-if", self._what_if)
        application.router.add_get("/history.csv", self._history_csv)
        application.router.add_get("/live", self._live)
        application.router.add_get("/sign-in", self._sign_in_page)
        application.router.add_post("/sign-in", self._sign_in)
        application.router.add_post("/sign-out", self._sign_out)
        application.router.add_post("/theme", _theme)
        if self._settings.writes:
            ActionRoutes(self._session, self._frame, self._log).add_to(application.router)
        application.router.add_get("/static/{name}", _static)
        for path in _PROBES:
            application.router.add_get(path, _is_up)
        self._listener = Listener(application, LIMITS)
        self.port = self._hosts.port = await self._listener.start(self._settings.listen)
        return self.port

    async def problems(self) -> AsyncGenerator[str, None]:
        """Why what is shown may be old, whenever that changes; empty: it is not."""
        known = ""
        while True:
            version = self._source.version
            if version and self._source.problem != known:
                known = self._source.problem
                yield known
            await self._source.newer_than(version, within_s=WAIT_S)

    async def stop(self) -> None:
        self._streams.stop()
        await self._answers.close()
        if self._listener is not None:
            await self._listener.stop()

    # ------------------------------------------------------------------------------------------------- every request

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            if request.path not in _PROBES:  # a kubelet asks by the pod's address
                self._hosts.check(request)
            response = await handler(request)
        except web.HTTPException as error:
            response = self._sorry(request, error.status, _CAUSES.get(error.status, error.reason))
        except _Redirect as redirect:
            response = web.Response(status=303, headers={"location": redirect.path})
        except Denied as denied:
            response = self._sorry(request, denied.status, str(denied))
        except PumiceError as error:
            response = self._sorry(request, 503, str(error))
        except Exception as error:
            response = self._sorry(request, 500, self._log_failure(request, error))
            if request.path == "/live":
                raise  # its answer has begun: there is nobody to tell but the log
        if not response.prepared:
            response.headers.update(guard.HEADERS)
            if "cache-control" not in response.headers:
                response.headers["cache-control"] = "no-store"
        return response

    def _log_failure(self, request: web.Request, error: Exception) -> str:
        """What is told of a mistake of ours: the number under which the log has the rest."""
        number = secrets.token_hex(4)
        trace = traceback.format_exc(limit=-TRACE_FRAMES_MAX)
        self._log(
            "request_failed", request=number, method=request.method, path=request.path, error=repr(error), trace=trace
        )
        return (
            f"Pumice made a mistake over request {number}. Load the page again; if it stays, look for {number} in the log of the "
            "dashboard (the terminal of `pumice up` or `pumice dashboard`, or its pod's) and report what stands there."
        )

    def _sorry(self, request: web.Request, status: int, cause: str) -> web.Response:
        title = _SORRY.get(status, "Not possible")
        if "application/json" in request.headers.get("accept", ""):
            response = web.json_response({"title": title, "cause": cause}, status=status)
        else:
            text = rendering.page("sorry.html", {**self._frame(request, None), "title": title, "cause": cause})
            response = web.Response(text=text, status=status, content_type="text/html")
        if status == 429:
            response.headers["retry-after"] = "5"
        if status in _REFRESH_S and request.method == "GET":
            response.headers["refresh"] = _REFRESH_S[status]
        return response

    def _frame(self, request: web.Request, session: Session | None) -> dict[str, Any]:
        """What the frame around every page shows."""
        theme = request.cookies.get("pumice-theme", "system")
        return {
            "menu": [page for page in PAGES if page.in_menu],
            "path": request.path,
            "here": request.path_qs,
            "cluster": self._settings.title,
            "session": session,
            "live": session is not None and request.path not in _STILL,
            "can_sign_out": session is not None and self._cookie in request.cookies,
            "theme": theme if theme in THEMES else "system",
            "themes": THEMES,
            "problem": self._source.problem,
            "leader": self._source.state.leader if self._source.state is not None else "",
            "seen": self._source.version,
        }

    # ------------------------------------------------------------------------------------------------- who

    @property
    def _cookie(self) -> str:
        return f"pumice-{self.port}"  # cookies do not tell ports apart

    async def _session(self, request: web.Request) -> Session:
        """Who asks; sends them to the sign-in page where nobody knows."""
        bearer = token_of(request.headers) if self._authentication.takes_tokens else ""
        is_guess = bool(bearer) and not self._sessions.knows(bearer)
        if is_guess:
            self._sign_ins.check(request.remote)
        try:
            session = await self._sessions.find(request.cookies.get(self._cookie, ""), bearer)
        except Denied as denied:
            if denied.status != 401:
                raise
            if is_guess:
                self._sign_ins.take(request.remote)
            if bearer:
                raise
            session = None
        if session is None:
            if request.path == "/live":
                raise Denied(401, "sign in again")
            raise _Redirect("/sign-in")
        self._requests.take(id(session))
        return session

    async def _sign_in_page(self, request: web.Request) -> web.Response:
        """The form; whom a proxy has signed in already is let in."""
        if self._authentication.takes_tokens and token_of(request.headers):
            await self._session(request)
            raise _Redirect("/")
        return self._sign_in_form(request)

    def _sign_in_form(self, request: web.Request, cause: str = "") -> web.Response:
        frame = self._frame(request, None)
        values = {**frame, "title": "Sign in", "takes_tokens": self._authentication.takes_tokens, "cause": cause}
        text = rendering.page("sign_in.html", values)
        return web.Response(text=text, content_type="text/html", status=401 if cause else 200)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        self._sign_ins.check(request.remote)
        form = await request.post()
        secret = str(form.get("secret", "")).strip()
        if not secret or len(secret) > SECRET_CHARS_MAX:
            cause = "no token was given" if not secret else "this is too long for a token"
            return self._sign_in_form(request, cause)
        try:
            cookie, _ = await self._sessions.begin(secret)
        except Denied as denied:
            if denied.status != 401:
                raise
            self._sign_ins.take(request.remote)
            return self._sign_in_form(request, str(denied))
        response = web.Response(status=303, headers={"location": "/"})
        secure = request.secure or request.headers.get("x-forwarded-proto") == "https"
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="Lax", secure=secure, path="/")
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        session, form = await self._session(request), await request.post()
        guard.check_csrf(session, str(form.get("csrf", "")))
        self._sessions.end(request.cookies.get(self._cookie, ""))
        response = web.Response(status=303, headers={"location": "/sign-in"})
        response.del_cookie(self._cookie, path="/")
        self._source.wake()  # its open pages go, too
        return response

    # ------------------------------------------------------------------------------------------------- pages

    async def _page(self, page: Page, request: web.Request) -> web.Response:
        session = await self._session(request)
        frame = self._frame(request, session)
        values = await self._values(page, session, request.match_info, request.query)
        text = rendering.page(page.template, {"title": page.title, **frame, **values})
        return web.Response(text=text, content_type="text/html")

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        """A policy is no part of an address: what is asked with one is answered at once, anything else has an address of its own."""
        session, form = await self._session(request), await request.post()
        guard.check_csrf(session, str(form.get("csrf", "")))
        asked = {name: str(form[name]) for name in PARAMETERS if str(form.get(name, "")).strip()}
        if "policy" not in asked:
            raise _Redirect(f"/what-if?{urlencode(asked)}" if asked else "/what-if")
        page = next(each for each in PAGES if each.path == request.path)
        values = {**self._frame(request, session), **await self._values(page, session, {}, asked)}
        text = rendering.page(page.template, {"title": page.title, **values})
        return web.Response(text=text, content_type="text/html")

    async def _history_csv(self, request: web.Request) -> web.Response:
        session = await self._session(request)
        text = await history.table(await self._page_request(session, {}, request.query))
        headers = {"content-disposition": 'attachment; filename="pumice-history.csv"'}
        return web.Response(text=text, content_type="text/csv", headers=headers)

    async def _page_request(self, session: Session, names: Mapping[str, str], query: Mapping[str, str]) -> PageRequest:
        """What somebody may see now."""
        state = self._source.state
        if state is None:
            raise Denied(503, f"the scheduler has not told anything yet: {self._source.problem}")
        sees = await session.person.sees(state)
        if sees.namespaces is not None and not sees.namespaces and not sees.nodes:
            raise Denied(
                403, f"{session.person.name} may list PodGroups in no namespace that has any; ask your administrator"
            )
        return PageRequest(
            state=sees.apply(state) if not (sees.nodes and sees.namespaces is None) else state,
            sees=sees,
            person=session.person,
            now=self._clock.now(),
            query=query,
            names=names,
            answers=self._answers,
            writes=self._settings.writes,
        )

    async def _values(
        self, page: Page, session: Session, names: Mapping[str, str], query: Mapping[str, str]
    ) -> dict[str, Any]:
        asked = await self._page_request(session, names, query)
        return {**await page.data(asked), "now": asked.now, "sees_all": asked.sees_all}

    async def _live(self, request: web.Request) -> web.StreamResponse:
        session = await self._session(request)
        return await self._streams.serve(request, session, _target(request.query.get("page", "")))


async def _theme(request: web.Request) -> web.StreamResponse:
    form = await request.post()
    theme, here = str(form.get("theme", "")), str(form.get("here", "/"))
    if theme not in THEMES:
        raise Denied(400, f"theme {theme[:20]!r}: there are {', '.join(THEMES)}")
    response = web.Response(status=303, headers={"location": here if _OWN_PATH.fullmatch(here) else "/"})
    response.set_cookie("pumice-theme", theme, max_age=365 * 86_400, samesite="Lax", path="/", httponly=True)
    return response


def _target(where: str) -> tuple[Page, Mapping[str, str], Mapping[str, str]]:
    """The page that an address of ours means."""
    parts = urlsplit(where[:PATH_CHARS_MAX])
    query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=32))
    for page in (each for each in PAGES if each.path not in _STILL):
        wanted, given = page.path.split("/"), parts.path.split("/")
        if len(wanted) == len(given) and all(
            one == other or one.startswith("{") for one, other in zip(wanted, given, strict=True)
        ):
            names = {one.strip("{}"): unquote(other) for one, other in zip(wanted, given, strict=True) if one != other}
            return page, names, query
    raise Denied(404, "no such page")


async def _static(request: web.Request) -> web.Response:
    known = rendering.static().get(request.match_info["name"])
    if known is None:
        raise Denied(404, "no such file")
    body, kind = known
    return web.Response(
        body=body,
        content_type=kind,
        charset="utf-8",
        headers={"cache-control": "public, max-age=31536000, immutable"},
    )


async def _is_up(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


_REFRESH_S = {403: "15", 503: "5"}  # who waits for a right, a first gang or a cluster that starts need do nothing
_CAUSES = {  # of what aiohttp refuses before a page of ours is asked
    404: "There is no such page. The overview leads to all that there are.",
    405: "This page can be read, and nothing else.",
    413: f"What was sent has more than {BODY_BYTES_MAX // 1024} KiB; send less.",
}
_SORRY = {
    400: "That cannot be asked",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    409: "Not as things are now",
    421: "Wrong host",
    429: "Too fast",
    500: "Something went wrong here",
    503: "Not reachable now",
}


def is_local(listen: str) -> bool:
    """Whether only this machine can come to an address."""
    return listen.rpartition(":")[0].strip("[]") in {"127.0.0.1", "::1", "localhost"}
