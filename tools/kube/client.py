"""The least HTTP client that a test needs: JSON in, status and JSON out."""

from __future__ import annotations

import http.client
import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

REQUEST_S_MAX = 70.0  # the API server gives up on a request after 60
WRITERS = 8


class Answer(NamedTuple):
    """What the API server said; the body is decoded JSON, or text where it is none (`ok` of /readyz)."""

    status: int
    body: Any


class Refused(Exception):
    """The API server answered, but not with success."""


class Client:
    """Talks to one API server with one bearer token."""

    def __init__(self, *, port: int, ca: Path, token: str) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One call on a connection of its own. A refusal is an answer; OSError means that there was none."""
        with closing(self._connect()) as connection:
            return self._send(connection, method, path, body, content_type=content_type)

    def create_all(self, path: str, objects: Sequence[Mapping[str, Any]]) -> None:
        """Creates them over a few connections at once, in no order; the first refusal is an error."""

        def create(share: Sequence[Mapping[str, Any]]) -> None:
            with closing(self._connect()) as connection:
                for item in share:
                    answer = self._send(connection, "POST", path, item)
                    if answer.status != http.client.CREATED:
                        raise Refused(f"creating {item['metadata']['name']} at {path}: {answer.status} {answer.body}")

        with ThreadPoolExecutor(max_workers=WRITERS) as writers:
            for done in [writers.submit(create, objects[i::WRITERS]) for i in range(min(WRITERS, len(objects)))]:
                done.result()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=REQUEST_S_MAX, context=self._tls)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = "application/json",
    ) -> Answer:
        payload = None if body is None else json.dumps(body).encode()
        connection.request(method, path, payload, {**self._headers, "Content-Type": content_type})
        response = connection.getresponse()
        data = response.read()
        try:
            return Answer(response.status, json.loads(data))
        except ValueError:
            return Answer(response.status, data.decode(errors="replace"))
