"""The manifests of the guide to frameworks are admitted and run, with what the guide says of their plugins."""

import json

import pytest
from tests.bodies import frameworks

from pumice.api.core import ConfigMap, Secret, Service


@pytest.fixture
async def world(tmp_path):
    async with frameworks.a_cluster(tmp_path) as (_, made):
        yield made


async def running(world, title):
    """The pods of the guide's Job once all of them run."""
    objects = frameworks.manifests(title)
    job = frameworks.job_of(objects)
    await frameworks.submit(world, objects)
    count = sum(task["replicas"] for task in job["spec"]["tasks"])
    await world.phase("Running", name=job["metadata"]["name"], running=count)
    return await world.pods()


def container(pods, name):
    (only,) = pods[name]["spec"]["containers"]
    return only


def env(pods, name):
    return {each["name"]: each.get("value") for each in container(pods, name).get("env", ())}


async def names(world, struct):
    return {each["metadata"]["name"] for each in await world.all(struct)}


async def test_pytorch_ranks_know_their_master_and_their_number(world):
    pods = await running(world, "pytorch.yaml")
    assert set(pods) == {"train-master-0", "train-worker-0", "train-worker-1"}
    for rank, name in enumerate(["train-master-0", "train-worker-0", "train-worker-1"]):
        known = {key: env(pods, name)[key] for key in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")}
        assert known == {
            "MASTER_ADDR": "train-master-0.train",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "3",
            "RANK": str(rank),
        }
    assert "train" in await names(world, Service)  # svc came along


async def test_the_mpi_launcher_knows_its_hosts_and_all_share_a_key(world):
    pods = await running(world, "mpi.yaml")
    assert env(pods, "hello-launcher-0")["MPI_HOST"] == "hello-worker-0.hello,hello-worker-1.hello"
    assert "MPI_HOST" not in env(pods, "hello-worker-0")
    for name in pods:
        assert {"name": "mpijob-port", "containerPort": 22}.items() <= container(pods, name)["ports"][0].items()
        assert {"name": "hello-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"} in container(pods, name)[
            "volumeMounts"
        ]
    assert "hello-ssh" in await names(world, Secret)


async def test_ray_starts_a_head_and_workers_that_join_it(world):
    pods = await running(world, "ray.yaml")
    head, worker = container(pods, "cluster-head-0"), container(pods, "cluster-worker-1")
    assert head["command"][-1].startswith("ray start --head --block ")
    assert {port["name"]: port["containerPort"] for port in head["ports"]} == {
        "gcs": 6379,
        "dashboard": 8265,
        "client-server": 10001,
    }
    assert worker["command"][-1] == "ray start --block --address=cluster-head-0.cluster:6379"
    service = (await world.client.get(Service, "cluster-head-svc", namespace=world.namespace)).json()
    assert service["spec"]["selector"].items() <= pods["cluster-head-0"]["metadata"]["labels"].items()
    assert not service["spec"]["selector"].items() <= pods["cluster-worker-0"]["metadata"]["labels"].items()


async def test_tensorflow_members_get_the_config_that_the_guide_shows(world):
    pods = await running(world, "tensorflow.yaml")
    assert json.loads(env(pods, "mnist-worker-1")["TF_CONFIG"]) == json.loads(frameworks.shown("TF_CONFIG"))
    assert json.loads(env(pods, "mnist-chief-0")["TF_CONFIG"])["task"] == {"type": "chief", "index": 0}


async def test_what_every_framework_relies_on_is_there(world):
    """The Service of the Job's name, and the list of all names."""
    pods = await running(world, "pytorch.yaml")
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods.values()} == {
        (name, "train") for name in pods
    }
    hosts = (await world.client.get(ConfigMap, "train-svc", namespace=world.namespace)).json()
    assert hosts["data"]["VC_WORKER_HOSTS"] == "train-worker-0.train,train-worker-1.train"


def test_every_file_that_the_guide_shows_is_run_by_a_test():
    """pytorch to tensorflow here; train.py in test_torch.py, two_roles.py in tests/kube/test_torchx.py."""
    assert frameworks.titles() == [
        "pytorch.yaml",
        "train.py",
        "mpi.yaml",
        "ray.yaml",
        "tensorflow.yaml",
        "TF_CONFIG",
        "two_roles.py",
    ]
