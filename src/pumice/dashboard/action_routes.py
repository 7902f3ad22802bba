"""The routes of actions: a page that asks once more, and the form that does it. They are there only where the dashboard was started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web

from pumice.dashboard import actions, guard, rendering
from pumice.kube.errors import KubeError, StatusError
from pumice.processes.access import Denied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.dashboard.sessions import Session
    from pumice.runtime import Log


class ActionRoutes:
    """`session_of` says who asks, `frame` what is around every page; `log` is told of everything that was done or refused."""

    def __init__(
        self,
        session_of: Callable[[web.Request], Awaitable[Session]],
        frame: Callable[[web.Request, Session | None], dict[str, Any]],
        log: Log,
    ) -> None:
        self._session_of = session_of
        self._frame = frame
        self._log = log

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get(actions.PATH, self.ask_once_more)
        router.add_post(actions.PATH, self.act)

    async def ask_once_more(self, request: web.Request) -> web.Response:
        """What will happen, and a form that does it."""
        session = await self._session_of(request)
        action, target = actions.asked(request.query)
        try:
            obj = await actions.look(session.person, action, target)
            classes = await actions.classes(session.person) if action.word == "priority" else None
        except KubeError as error:
            raise Denied(_status_of(error), error.plain) from error
        values = {
            **self._frame(request, session),
            "title": f"{action.label}?",
            "action": action,
            "target": target,
            "object": obj,
            "phase": actions.phase_of(target.kind, obj),
            "classes": classes,
            "back": _back(target),
        }
        return web.Response(text=rendering.page("confirm.html", values), content_type="text/html")

    async def act(self, request: web.Request) -> web.Response:
        """Does it, as the person, and tells how it went; the log is told, too."""
        session, form = await self._session_of(request), await request.post()
        guard.check_csrf(session, str(form.get("csrf", "")))
        action, target = actions.asked(form)
        uid, priority = (str(form.get(field, "")) for field in ("uid", "priority"))
        status, cause = 200, ""
        try:
            await actions.do(session.person, action, target, uid=uid, priority=priority)
        except Denied as denied:
            status, cause = denied.status, str(denied)
        except KubeError as error:
            status, cause = _status_of(error), error.plain
        session.person.forget()
        facts = {"person": session.person.name, "action": action.word, "kind": target.kind, "object": target.key}
        extra = {"priority": priority[: actions.NAME_CHARS_MAX]} if action.word == "priority" else {}
        self._log(
            "dashboard_action",
            **facts,
            **extra,
            uid=uid[: actions.NAME_CHARS_MAX],
            address=request.remote,
            status=status,
            cause=cause,
        )
        values = {
            **self._frame(request, session),
            "title": "Not done" if cause else "Done",
            "action": action,
            "target": target,
            "cause": cause,
            "back": _back(target),
            "here": _back(target),  # what was done is not done again by another choice of colours
        }
        return web.Response(text=rendering.page("acted.html", values), status=status, content_type="text/html")


def _status_of(error: KubeError) -> int:
    """What the API server answered; where it did not, that it cannot be reached."""
    return error.code if isinstance(error, StatusError) and 400 <= error.code < 600 else 503


def _back(target: actions.Target) -> str:
    """Where the buttons of an object are."""
    if target.kind == "queues":
        return "/queues"
    return f"/gangs/{quote(target.namespace, safe='')}/{quote(target.name, safe='')}"
