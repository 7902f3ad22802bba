import os
from pathlib import Path

import pytest

from pumice.api import decoding
from pumice.errors import BadInput
from pumice.local.nodes.process import orders
from pumice.local.nodes.process.downward import Facts
from pumice.local.nodes.process.environment import Asking
from pumice.local.nodes.process.orders import Place
from pumice.local.nodes.process.podspec import ProcessPod

PLACE = Place(root=Path("/r"), hosts=Path("/h"), termination_message=Path("/t"))


class NoVolumes:
    def mounts(self, container, env):
        return []


def a_pod(container=None, **spec):
    main = {"name": "main", "image": "trainer:1", "command": ["train"]} | (container or {})
    value = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [main], **spec}}
    return decoding.decode_value(ProcessPod, value)


async def ordered(pod, given=None):
    asking = Asking(pod, pod.spec.containers[0], Facts("h", "p", {}), None)
    return await orders.order(asking, NoVolumes(), PLACE, given or {})


async def test_command_and_arguments_are_expanded_and_put_together():
    order = await ordered(a_pod({"args": ["--gpu=$(CUDA)", "$$x"]}), {"CUDA": "3"})
    assert order["argv"] == ["train", "--gpu=3", "$x"]
    assert (order["cwd"], order["hostname"], order["env"]["HOSTNAME"]) == ("/", "p", "p")
    assert {"source": "/h", "target": "/etc/hosts"} in order["mounts"]
    assert {"source": "/t", "target": "/dev/termination-log"} in order["mounts"]


async def test_of_the_agents_environment_only_harmless_names_are_passed_on(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("PATH", "/some/bin")
    order = await ordered(a_pod())
    assert order["env"]["PATH"] == "/some/bin"
    assert "AWS_SECRET_ACCESS_KEY" not in order["env"]


def test_a_container_without_a_command_is_named_with_the_reason():
    complaint = orders.no_command(a_pod({"command": []}))
    assert complaint.startswith(
        "container 'main' gives no command: process nodes do not pull images (here 'trainer:1')"
    )
    assert orders.no_command(a_pod()) == ""


def test_probes_and_hooks_are_not_acted_upon_and_that_is_told():
    wants = {"readinessProbe": {"exec": {"command": ["x"]}}, "lifecycle": {"preStop": {}}}
    assert orders.ignored_fields_message(a_pod(wants)) == (
        "process nodes do not act upon readinessProbe of main, lifecycle of main: a container is ready as soon as it runs"
    )
    assert orders.ignored_fields_message(a_pod()) == ""


@pytest.mark.parametrize(
    ("common", "own", "expected"),
    [
        ({}, {}, None),
        ({"runAsUser": 1000}, {}, (1000, 0, [])),
        ({"runAsUser": 1000, "runAsGroup": 5}, {"runAsUser": 2000}, (2000, 5, [])),
        ({"fsGroup": 7, "supplementalGroups": [8]}, {"runAsUser": 3000, "runAsGroup": 1}, (3000, 1, [8, 7])),
        ({}, {"runAsGroup": 9}, (0, 9, [])),
    ],
)
async def test_root_runs_a_command_as_whom_the_pod_wants(monkeypatch, common, own, expected):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(orders, "_primary_group", lambda uid: 0)
    user = (await ordered(a_pod({"securityContext": own}, securityContext=common)))["user"]
    assert (user and (user["uid"], user["gid"], user["groups"])) == expected


async def test_an_agent_that_is_not_root_refuses_to_be_somebody_else(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    with pytest.raises(BadInput, match="wants to run as user 2000, group None, but this node's agent is user 1000"):
        await ordered(a_pod({"securityContext": {"runAsUser": 2000}}))
    assert (await ordered(a_pod({"securityContext": {"runAsUser": 1000}})))["user"]["uid"] == 1000


@pytest.mark.parametrize("context", [{}, {"runAsUser": 0}])
async def test_a_pod_that_must_not_be_root_is_not_run_as_root(monkeypatch, context):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(BadInput, match="has runAsNonRoot and would run as root"):
        await ordered(a_pod({"securityContext": context | {"runAsNonRoot": True}}))
    fine = await ordered(a_pod({"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}))
    assert fine["user"]["uid"] == 1000
