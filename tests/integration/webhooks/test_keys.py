"""Keys in a Secret that replicas share, and keys in files, on the embedded server."""

import asyncio
import base64
import datetime as dt

import pytest
from tests.bodies.queue_rights import BINDING, ROLE
from tests.bodies.webhooks import HOME, Impersonating, asks, client_of, hooked, running, until

from pumice.api.core import Namespace, Secret
from pumice.clock import RealClock
from pumice.errors import BadInput, Refused
from pumice.kube import errors
from pumice.processes.webhooks import WebhookSettings
from pumice.runtime import silent
from pumice.webhooks import keys
from pumice.webhooks.ca_bundle import CONFIGURATIONS, inject
from pumice.webhooks.certificate_store import Files, SharedSecret
from pumice.webhooks.keys import Lives, renew
from pumice.webhooks.registration import Registration

NAME = "pumice-webhooks-tls"
HOSTS = ("127.0.0.1",)


@pytest.fixture
async def client(transport):
    made = client_of(transport)
    await made.create(Namespace, {"metadata": {"name": HOME}})
    return made


def shared(client, hosts=HOSTS):
    return SharedSecret(client, namespace=HOME, name=NAME, hosts=hosts, lives=Lives(), clock=RealClock(), log=silent)


async def stored(client):
    return keys.read((await client.get(Secret, NAME, namespace=HOME)).json()["data"])


async def test_replicas_that_begin_together_serve_with_the_same_keys(client):
    found = await asyncio.gather(*(shared(client).current(b"") for _ in range(5)))
    assert len(set(found)) == 1
    assert (await stored(client)).pair == found[0][0]


async def test_an_empty_secret_is_filled_and_what_else_it_holds_stays(client):
    body = {"metadata": {"name": NAME, "labels": {"a": "b"}}, "data": {"note": "eA=="}}
    await client.create(Secret, body, namespace=HOME)
    pair, bundle = await shared(client).current(b"")
    secret = (await client.get(Secret, NAME, namespace=HOME)).json()
    assert secret["metadata"]["labels"] == {"a": "b"}
    assert secret["data"]["note"] == "eA=="
    assert base64.b64decode(secret["data"]["tls.crt"]) == pair.certificate
    assert base64.b64decode(secret["data"]["ca.crt"]) == bundle


async def test_where_nothing_is_due_nothing_is_written(client):
    await shared(client).current(b"")
    before = (await client.get(Secret, NAME, namespace=HOME)).json()["metadata"]["resourceVersion"]
    await shared(client).current(b"")
    assert (await client.get(Secret, NAME, namespace=HOME)).json()["metadata"]["resourceVersion"] == before


async def test_without_the_right_to_create_the_secret_the_error_says_what_to_do(transport, client):
    nobody = client_of(Impersonating(transport, "nobody"))
    allowed = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    await client.create(ROLE, {"metadata": {"name": "readers"}, "rules": allowed})
    subjects = [{"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"}
    await client.create(BINDING, {"metadata": {"name": "readers"}, "roleRef": role, "subjects": subjects})
    with pytest.raises(Refused, match="create an empty one"):
        await shared(nobody).current(b"")


async def test_the_bundle_is_written_into_our_webhooks_alone_and_once(client):
    manifests = Registration(namespace=HOME).manifests()
    theirs = {**manifests[0]["webhooks"][0], "name": "jobs.example.com"}
    manifests[0]["webhooks"].insert(0, theirs)
    for kind, manifest in zip(CONFIGURATIONS, manifests, strict=True):
        await client.create(kind, manifest)
    _, bundle = await shared(client).current(b"")
    number = sum(len(each["webhooks"]) for each in manifests) - 1
    assert await inject(client, "pumice-webhooks", bundle) == number
    assert await inject(client, "pumice-webhooks", bundle) == 0
    found = (await client.get(CONFIGURATIONS[0], "pumice-webhooks")).json()["webhooks"]
    assert [bool(each["clientConfig"].get("caBundle")) for each in found] == [False] + [True] * (len(found) - 1)


# ------------------------------------------------------------------------------------------------------------ files


def write(folder, made):
    made.pair.write(folder / "tls.crt", folder / "tls.key")
    (folder / "ca.crt").write_bytes(made.bundle)


def new_keys():
    return renew(None, HOSTS, now=dt.datetime.now(dt.UTC), lives=Lives(), trusted=b"")


async def test_files_that_somebody_else_renews_are_taken_up_while_serving(transport, tmp_path):
    first, second = new_keys(), new_keys()
    write(tmp_path, first)
    async with hooked(transport, WebhookSettings(certificate_folder=str(tmp_path))) as here:
        assert (await bundle_of(here)) == first.bundle
        write(tmp_path, second)

        async def injected():
            return await bundle_of(here) == second.bundle

        await until(injected, "the new authority is trusted")
        await until(lambda: asks(here.client), "the new pair serves")
        with pytest.raises(errors.NotFound):
            await here.client.get(Secret, NAME, namespace=HOME)


async def bundle_of(here):
    found = (await here.client.get(CONFIGURATIONS[1], "pumice-webhooks")).json()
    return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])


async def test_a_folder_without_a_pair_is_refused_at_the_start(client, tmp_path):
    with pytest.raises(BadInput, match=r"tls\.crt"):
        async with running(client, WebhookSettings(certificate_folder=str(tmp_path), bind="127.0.0.1:0")):
            pass


async def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "tls.crt").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(BadInput, match="larger than 1048576 bytes; mount a Secret"):
        await Files(tmp_path).current(b"")
