"""Short words to talk to a server in this process."""

import asyncio
import json

from tests.bodies.patience import PATIENCE_S

from pumice.kube.transport import Request
from pumice.local.apiserver.request_parsing import ROOT


class Watching:
    """A watch that is read event by event."""

    def __init__(self, stream):
        self.stream = stream
        self.lines = []
        self.rest = b""

    async def next(self):
        while not self.lines:
            self.rest += await asyncio.wait_for(anext(self.stream), PATIENCE_S)
            *whole, self.rest = self.rest.split(b"\n")
            self.lines += whole
        return json.loads(self.lines.pop(0))

    async def take(self, count):
        return [await self.next() for _ in range(count)]

    async def close(self):
        await self.stream.aclose()


class Api:
    """Calls a server as one caller; answers are decoded, `status` and `headers` are those of the last call."""

    def __init__(self, server, caller=ROOT):
        self.server = server
        self.caller = caller
        self.status = 0
        self.headers = {}

    async def call(self, method, path, body=None, *, media="application/json", accept="", agent="test", **query):
        headers = {"user-agent": agent, "content-type": media}
        if accept:
            headers["accept"] = accept
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        response = await self.server.handle(Request(method, path, query, headers, data), self.caller)
        self.status, self.headers = response.status, response.headers
        if response.stream is not None:
            return Watching(response.stream)
        return (
            json.loads(response.body)
            if response.headers["content-type"].startswith("application/json")
            else response.body
        )

    async def get(self, path, **options):
        return await self.call("GET", path, **options)

    async def create(self, path, body, **options):
        return await self.call("POST", path, body, **options)

    async def update(self, path, body, **options):
        return await self.call("PUT", path, body, **options)

    async def delete(self, path, body=None, **options):
        return await self.call("DELETE", path, body, **options)

    async def merge(self, path, body, **options):
        return await self.call("PATCH", path, body, media="application/merge-patch+json", **options)

    async def strategic(self, path, body, **options):
        return await self.call("PATCH", path, body, media="application/strategic-merge-patch+json", **options)

    async def json_patch(self, path, body, **options):
        return await self.call("PATCH", path, body, media="application/json-patch+json", **options)

    async def apply(self, path, body, *, manager="me", **options):
        media = "application/apply-patch+yaml"
        return await self.call("PATCH", path, body, media=media, fieldManager=manager, **options)

    async def watch(self, path, **options):
        return await self.call("GET", path, watch="true", **options)

    async def names(self, path, **options):
        return [item["metadata"]["name"] for item in (await self.get(path, **options))["items"]]

    async def settle(self):
        """Lets garbage collection and its like come to an end."""
        await self.server.housekeeping.settle()


PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def a_pod(name, **spec):
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers} | spec}


def a_map(name, data=None, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name} | metadata, "data": data or {}}
