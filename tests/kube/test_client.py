import asyncio
import base64
import json
import random
import sys
import textwrap

import pytest
from tests.bodies.client import ClientBodies, Heard, config_map, informer_of, running
from tests.bodies.patience import PATIENCE_S

from pumice.api.changes import Deleted, Upserted
from pumice.api.core import ConfigMap, Node
from pumice.api.kinds import Kind
from pumice.clock import RealClock
from pumice.kube import config, credentials, errors
from pumice.kube.client import Client
from pumice.kube.exec_auth import PluginPolicy
from pumice.kube.http import HttpTransport

SERVICE_ACCOUNT_TOKEN = Kind("", "v1", "ServiceAccount", "serviceaccounts", subresources=("token",))


def client_of(connection):
    return Client(HttpTransport(connection, user_agent="pumice-test/1"), clock=RealClock(), chance=random.Random(0))


@pytest.fixture
async def client(plane):
    made = client_of(config.find(str(plane.kubeconfig), clock=RealClock()))
    yield made
    await made.close()


@pytest.fixture
async def node(client):
    return next(each.metadata.name for each in (await client.list(Node)).items)


class TestOnTheRealServer(ClientBodies):
    pass


# ------------------------------------------------------------------------------------------------------ credentials


async def token_of(client, namespace, account="default"):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    reply = await client.create(SERVICE_ACCOUNT_TOKEN, body, namespace=namespace, name=account, subresource="token")
    return reply.json()["status"]["token"]


async def who_am_i(client):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    kind = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
    return (await client.create(kind, body)).json()["status"]["userInfo"]["username"]


def kubeconfig(plane, tmp_path, user, **cluster):
    path = tmp_path / "config"
    text = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca)} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(text))
    return str(path)


async def test_a_token_file_that_rotates_is_followed_without_a_restart(plane, client, namespace, tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "FILE_CHECK_S_MIN", 0.0)
    for account in ("first", "second"):
        await client.create(
            Kind("", "v1", "ServiceAccount", "serviceaccounts"), {"metadata": {"name": account}}, namespace=namespace
        )
    file = tmp_path / "token"
    file.write_text(await token_of(client, namespace, "first"))
    ours = client_of(config.find(kubeconfig(plane, tmp_path, {"tokenFile": "token"}), clock=RealClock()))
    assert await who_am_i(ours) == f"system:serviceaccount:{namespace}:first"
    file.write_text(await token_of(client, namespace, "second"))
    assert await who_am_i(ours) == f"system:serviceaccount:{namespace}:second"
    await ours.close()


async def test_a_token_that_the_server_rejects_is_refused_with_a_next_step(plane, tmp_path):
    ours = client_of(config.find(kubeconfig(plane, tmp_path, {"token": "nonsense"}), clock=RealClock()))
    with pytest.raises(errors.Refused, match=r"401 Unauthorized.*or log in again"):
        await who_am_i(ours)
    await ours.close()


async def test_an_exec_plugin_gives_a_token_and_a_fresh_one_after_a_401(
    plane, client, namespace, tmp_path, monkeypatch
):
    monkeypatch.setattr("pumice.kube.exec_auth.RERUN_S_MIN", 0.0)
    plugin = tmp_path / "login"
    plugin.write_text(
        textwrap.dedent(
            f"""\
            #!{sys.executable}
            import json, os, pathlib
            told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
            assert told["spec"]["cluster"]["server"] == "{plane.url}"
            token = (pathlib.Path(__file__).parent / "next").read_text()
            print(json.dumps({{"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": {{"token": token}}}}))
            """
        )
    )
    plugin.chmod(0o755)
    (tmp_path / "next").write_text("worn-out")
    exec_config = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    path = kubeconfig(plane, tmp_path, {"exec": exec_config})
    ours = client_of(config.find(path, clock=RealClock(), plugins=PluginPolicy(allowed=True)))
    with pytest.raises(errors.Refused):
        await who_am_i(ours)
    (tmp_path / "next").write_text(await token_of(client, namespace))
    assert await who_am_i(ours) == f"system:serviceaccount:{namespace}:default"
    await ours.close()


async def test_an_exec_plugin_gives_a_client_certificate(plane, tmp_path):
    alice = json.loads(plane.user("alice").read_text())["users"][0]["user"]
    certificate, key = (base64.b64decode(alice[f"client-{part}-data"]).decode() for part in ("certificate", "key"))
    (tmp_path / "credential.json").write_text(
        json.dumps(
            {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "kind": "ExecCredential",
                "status": {"clientCertificateData": certificate, "clientKeyData": key},
            }
        )
    )
    exec_config = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "cat",
        "args": [str(tmp_path / "credential.json")],
    }
    path = kubeconfig(plane, tmp_path, {"exec": exec_config})
    ours = client_of(config.find(path, clock=RealClock(), plugins=PluginPolicy(allowed=True)))
    assert await who_am_i(ours) == "alice"
    await ours.close()


async def test_impersonation_acts_as_somebody_else(plane, tmp_path):
    user = json.loads(plane.kubeconfig.read_text())["users"][0]["user"] | {"as": "bob", "as-groups": ["dev"]}
    ours = client_of(config.find(kubeconfig(plane, tmp_path, user), clock=RealClock()))
    assert await who_am_i(ours) == "bob"
    with pytest.raises(errors.Refused, match=r'User "bob" cannot list resource "nodes".*kubectl auth can-i'):
        await ours.list(Node)
    await ours.close()


async def test_a_pods_own_service_account_is_enough(plane, client, namespace, tmp_path):
    (tmp_path / "token").write_text(await token_of(client, namespace))
    (tmp_path / "ca.crt").write_bytes(plane.ca.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    env = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": plane.url.rpartition(":")[2],
        "HOME": str(tmp_path),
    }
    connection = config.find(clock=RealClock(), env=env, service_account=tmp_path)
    ours = client_of(connection)
    assert connection.namespace == namespace
    assert await who_am_i(ours) == f"system:serviceaccount:{namespace}:default"
    await ours.close()


# ------------------------------------------------------------------------------------------------------ hard times


async def test_an_informer_outlives_a_restart_of_the_server_without_a_gap(plane, client, namespace):
    informer = informer_of(client, ConfigMap, namespace=namespace)
    heard = Heard(informer)
    async with running(informer.run()):
        await client.create(ConfigMap, config_map("before"), namespace=namespace)
        await heard.until(lambda each: isinstance(each, Upserted) and each.object.metadata.name == "before")
        await asyncio.to_thread(plane.kill, "kube-apiserver")
        await asyncio.to_thread(plane.restart, "kube-apiserver")
        await client.create(ConfigMap, config_map("after"), namespace=namespace)
        await client.delete(ConfigMap, "before", namespace=namespace)
        await heard.until(lambda each: isinstance(each, Deleted) and each.object.metadata.name == "before")
    assert heard.told("before") == [Upserted, Deleted]
    assert heard.told("after") == [Upserted]


async def test_a_large_object_comes_through_a_watch_and_a_read(client, namespace):
    informer = informer_of(client, ConfigMap, namespace=namespace)
    heard = Heard(informer)
    async with running(informer.run()):
        async with asyncio.timeout(PATIENCE_S):
            await informer.synced.wait()
        await client.create(ConfigMap, config_map("large", x="y" * 900_000), namespace=namespace)
        await heard.until(lambda each: isinstance(each, Upserted) and each.object.metadata.name == "large")
    assert len(informer.get(namespace, "large").data["x"]) == 900_000
    assert len((await client.get(ConfigMap, "large", namespace=namespace)).raw) > 900_000
