"""A kill -9 loses nothing that was acknowledged, and a restart continues where the log ends."""

import asyncio
import json

import aiohttp
import pytest
from tests.integration.apiserver.conftest import session

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"content-type": "application/json"}


class Enough:
    """Set when so many writes have been acknowledged."""

    def __init__(self, after):
        self.after = after
        self.reached = asyncio.Event()


async def write_until_it_dies(opened, url, worker, acknowledged, enough):
    number = 0
    while True:
        name = f"m-{worker}-{number}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}}
        try:
            async with opened.post(f"{url}{MAPS}", data=json.dumps(body), headers=JSON) as answer:
                created = await answer.json()
        except (aiohttp.ClientError, OSError):
            return
        if answer.status != 201:
            return
        acknowledged[name] = created
        if len(acknowledged) >= enough.after:
            enough.reached.set()
        number += 1


async def listed(opened, url):
    async with opened.get(f"{url}{MAPS}") as answer:
        page = await answer.json()
    return {item["metadata"]["name"]: item for item in page["items"]}, int(page["metadata"]["resourceVersion"])


@pytest.mark.parametrize("after", [5, 60, 200])
async def test_what_was_acknowledged_survives_a_kill(start, after):
    first, acknowledged, enough = start(), {}, Enough(after)
    async with session(first.folder) as opened:
        writers = [write_until_it_dies(opened, first.url, number, acknowledged, enough) for number in range(8)]
        workers = [asyncio.create_task(writer) for writer in writers]
        await enough.reached.wait()
        first.kill()
        await asyncio.gather(*workers)
    second = start()
    async with session(second.folder) as opened:
        found, version = await listed(opened, second.url)
    assert acknowledged.items() <= found.items()
    assert version > max(int(item["metadata"]["resourceVersion"]) for item in acknowledged.values())


async def test_a_clean_stop_keeps_everything_and_credentials_stay_good(start):
    first = start()
    async with session(first.folder) as opened:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"{first.url}/api/v1/namespaces/default/serviceaccounts/default/token"
        async with opened.post(path, data=json.dumps(body), headers=JSON) as answer:
            token = (await answer.json())["status"]["token"]
        before, _ = await listed(opened, first.url)
    assert first.stop() == 0
    second = start()
    async with session(second.folder) as opened:
        after, version = await listed(opened, second.url)
        assert after == before
        async with opened.get(f"{second.url}/apis", headers={"authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 200
        async with opened.get(f"{second.url}{MAPS}?watch=true&resourceVersion={version - 1}") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_a_restart_leaves_the_files_of_the_administrator_as_they_are_unless_they_are_no_pair(start, tmp_path):
    """A client reads certificate and key one after the other; those of two lives would not belong together."""
    files = [tmp_path / "server" / name for name in ("admin.crt", "admin.key")]

    def restarted():
        start().stop()
        return [file.read_bytes() for file in files]

    first = restarted()
    assert restarted() == first
    files[0].write_bytes((tmp_path / "server" / "kubelet-client.crt").read_bytes())
    certificate, key = restarted()
    assert (certificate != first[0], key != first[1]) == (True, True)
