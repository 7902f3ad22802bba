"""Every plugin literally: names, arguments, defaults and variables as Volcano has them."""

import base64
import json

import pytest
from cryptography.hazmat.primitives import serialization
from tests.unit.controllers.job.literals import UID, a_job, a_pod, a_task, told

from pumice.api.validation.request import JOB_PLUGINS
from pumice.controllers.job import keys
from pumice.controllers.job.plugins import PLUGINS
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.operations import Delete
from pumice.errors import BadInput

NOTHING = {"containers": [{"name": "main", "image": "train"}]}
WITH_INIT = {"initContainers": [{"name": "init", "image": "x"}], "containers": [{"name": "main", "image": "train"}]}


def job_with(plugins, *tasks, phase="Pending", spec=WITH_INIT, **more):
    tasks = tasks or (("master", 1), ("worker", 2))
    made = [a_task(name, replicas, template={"spec": spec}) for name, replicas in tasks]
    return a_job(*made, phase=phase, plugins=plugins, **more)


def made_by(plugins, *tasks, **more):
    return told(job_with(plugins, *tasks, **more), group="Inqueue").bodies


def spec_of(plugins, pod, *tasks, **more):
    return made_by(plugins, *tasks, **more)[f"Pod/train-{pod}"]["spec"]


def env_of(container):
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", ())}


def ports_of(container):
    return {each["name"]: each["containerPort"] for each in container.get("ports", ())}


def test_all_of_volcanos_plugins_are_there_and_admission_knows_each():
    assert set(PLUGINS) >= {"env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"}
    assert tuple(PLUGINS) == JOB_PLUGINS


def test_an_unknown_plugin_is_told_and_makes_no_pods():
    found = told(job_with({"nonesuch": []}), group="Inqueue")
    assert found.created == []
    assert found.events[0][0] == "PluginError"
    assert "unable to find job plugin: nonesuch; choose of env, svc" in found.events[0][1]


# --------------------------------------------------------------------------------------------------------------- env


def test_env_tells_every_container_its_index():
    spec = spec_of({"env": []}, "worker-1")
    for container in (*spec["initContainers"], *spec["containers"]):
        assert env_of(container) == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


# --------------------------------------------------------------------------------------------------------------- svc


def test_svc_makes_a_headless_service_the_list_of_hosts_and_a_wall():
    made = made_by({"svc": []}, ("master", 1), ("my-Worker", 2))
    labels = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team"}
    assert made["ConfigMap/train-svc"]["data"] == {
        "master.host": "train-master-0.train",
        "VC_MASTER_HOSTS": "train-master-0.train",
        "VC_MASTER_NUM": "1",
        "my_Worker.host": "train-my-Worker-0.train\ntrain-my-Worker-1.train",
        "VC_MY_WORKER_HOSTS": "train-my-Worker-0.train,train-my-Worker-1.train",
        "VC_MY_WORKER_NUM": "2",
    }
    assert made["Service/train"]["spec"] == {"clusterIP": "None", "selector": labels}
    assert made["NetworkPolicy/train"]["spec"] == {
        "podSelector": {"matchLabels": labels},
        "ingress": [{"from": [{"podSelector": {"matchLabels": labels}}]}],
        "policyTypes": ["Ingress"],
    }
    for kind in ("ConfigMap/train-svc", "Service/train", "NetworkPolicy/train"):
        (owner,) = made[kind]["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (UID, True)


def test_svc_gives_pods_a_name_the_hosts_as_files_and_as_variables():
    pod = spec_of({"svc": []}, "worker-1")
    assert (pod["hostname"], pod["subdomain"]) == ("train-worker-1", "train")
    assert pod["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]
        assert env_of(container) == {
            key: {"configMapKeyRef": {"name": "train-svc", "key": key}}
            for key in ("VC_MASTER_HOSTS", "VC_MASTER_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")
        }


def test_svc_keeps_a_host_name_that_the_template_gives_and_lists_it_once():
    spec = {**NOTHING, "hostname": "boss", "subdomain": "net"}
    made = made_by({"svc": []}, ("worker", 3), spec=spec)
    assert made["ConfigMap/train-svc"]["data"]["VC_WORKER_HOSTS"] == "boss.net"
    assert made["ConfigMap/train-svc"]["data"]["VC_WORKER_NUM"] == "1"
    pod = made["Pod/train-worker-2"]["spec"]
    assert (pod["hostname"], pod["subdomain"]) == ("boss", "net")


def test_the_arguments_of_svc():
    arguments = ["--publish-not-ready-addresses", "--disable-network-policy=true", "--inject-hosts-env=false"]
    made = made_by({"svc": arguments})
    assert made["Service/train"]["spec"]["publishNotReadyAddresses"] is True
    assert "NetworkPolicy/train" not in made
    assert "env" not in made["Pod/train-worker-0"]["spec"]["containers"][0]


def test_scaling_refreshes_the_hosts_and_nothing_else():
    first = told(job_with({"svc": [], "ssh": []}, ("worker", 2)), group=None).job
    assert told(first, group="Pending").bodies == {}
    more = job_with(
        {"svc": [], "ssh": []}, ("worker", 3), status={"controlledResources": dict(first.status.controlled_resources)}
    )
    found = told(more, group="Pending")
    assert set(found.bodies) == {"ConfigMap/train-svc", "Secret/train-ssh"}
    assert found.bodies["ConfigMap/train-svc"]["data"]["VC_WORKER_NUM"] == "3"
    assert set(found.bodies["Secret/train-ssh"]["data"]) == {"config"}  # the keys stay
    assert told(found.job, group="Pending").bodies == {}


def test_what_plugins_made_goes_when_the_job_is_over_and_not_before():
    plugins = {"svc": [], "ssh": [], "ray": []}
    tasks = (("head", 1), ("worker", 1))
    set_up = told(job_with(plugins, *tasks), group=None).job
    controlled = {"controlledResources": dict(set_up.status.controlled_resources)}
    restarting = job_with(plugins, *tasks, phase="Restarting", status=controlled)
    assert not [each for each in told(restarting, group=None).operations if isinstance(each, Delete)]
    running = job_with(plugins, *tasks, phase="Running", status=controlled)
    done = [a_pod("head", 0, "Succeeded"), a_pod("worker", 0, "Succeeded")]
    found = told(running, *done)
    assert found.phase == "Completed"
    deletes = [each for each in found.operations if isinstance(each, Delete)]
    assert sorted(each.name for each in deletes) == ["train", "train", "train-head-svc", "train-ssh", "train-svc"]
    assert {each.owner for each in deletes} == {UID}
    assert dict(found.job.status.controlled_resources) == {}


# --------------------------------------------------------------------------------------------------------------- ssh


def test_ssh_makes_a_secret_whose_keys_are_filled_in_when_it_is_written():
    found = told(job_with({"ssh": []}), group=None)
    (create,) = [each for each in found.operations if getattr(each, "name", "") == "train-ssh"]
    assert create.filled_by == "ssh-keys"
    config = base64.b64decode(create.body["data"]["config"]).decode()
    assert config == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host train-master-0\n  HostName train-master-0.train\n  Port 22\n"
        "Host train-worker-0\n  HostName train-worker-0.train\n  Port 22\n"
        "Host train-worker-1\n  HostName train-worker-1.train\n  Port 22\n"
    )


def test_the_keys_are_a_pair_that_ssh_understands():
    data = keys.fill_keys({"data": {"config": "eA=="}})["data"]
    assert set(data) == {"config", "id_rsa", "id_rsa.pub", "authorized_keys"}
    private = base64.b64decode(data["id_rsa"])
    assert private.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    key = serialization.load_pem_private_key(private, password=None)
    assert key.key_size == 2048
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert base64.b64decode(data["id_rsa.pub"]) == base64.b64decode(data["authorized_keys"]) == public
    assert public.startswith(b"ssh-rsa ")


def test_a_private_key_of_the_user_gets_its_public_one():
    private = base64.b64decode(keys.fill_keys({"data": {}})["data"]["id_rsa"]).decode()
    found = told(job_with({"ssh": [f"--ssh-private-key={private}"]}), group=None)
    (create,) = [each for each in found.operations if getattr(each, "name", "") == "train-ssh"]
    data = keys.fill_keys(create.body)["data"]
    assert base64.b64decode(data["id_rsa"]).decode() == private
    assert base64.b64decode(data["authorized_keys"]).startswith(b"ssh-rsa ")


def test_a_private_key_that_is_none_is_refused_in_words():
    with pytest.raises(BadInput, match="plugin ssh: --ssh-private-key cannot be read"):
        keys.fill_keys({"data": {"id_rsa": base64.b64encode(b"secret").decode()}})


def test_a_pair_of_the_user_is_used_as_it_is():
    found = told(job_with({"ssh": ["--ssh-private-key", "PRIVATE", "--ssh-public-key", "PUBLIC"]}), group=None)
    (create,) = [each for each in found.operations if getattr(each, "name", "") == "train-ssh"]
    texts = {key: base64.b64decode(value).decode() for key, value in create.body["data"].items() if key != "config"}
    assert texts == {"id_rsa": "PRIVATE", "id_rsa.pub": "PUBLIC", "authorized_keys": "PUBLIC"}
    assert create.filled_by == ""


@pytest.mark.parametrize(("path", "mode"), [("/root/.ssh", 0o600), ("/home/me/.ssh", 0o644)])
def test_ssh_mounts_the_keys_in_every_container(path, mode):
    pod = spec_of({"ssh": [f"--ssh-key-file-path={path}"]}, "worker-0")
    (volume,) = pod["volumes"]
    assert volume["name"] == "train-ssh"
    assert volume["secret"] == {
        "secretName": "train-ssh",
        "defaultMode": mode,
        "items": [{"key": key, "path": f".ssh/{key}"} for key in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")],
    }
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["volumeMounts"] == [{"name": "train-ssh", "mountPath": path, "subPath": ".ssh"}]


@pytest.mark.parametrize(("given", "used"), [("2222", "2222"), ("0", "22"), ("70000", "22")])
def test_the_port_of_ssh(given, used):
    found = told(job_with({"ssh": [f"--ssh-port={given}"]}), group=None)
    config = base64.b64decode(found.bodies["Secret/train-ssh"]["data"]["config"]).decode()
    assert f"  Port {used}\n" in config


# -------------------------------------------------------------------------------------------------------- tensorflow


def test_tensorflow_tells_each_container_the_cluster_and_its_place_in_it():
    tasks = (("ps", 1), ("worker", 2), ("chief", 1), ("evaluator", 1), ("other", 1))
    cluster = {
        "ps": ["train-ps-0.train:2222"],
        "worker": ["train-worker-0.train:2222", "train-worker-1.train:2222"],
        "chief": ["train-chief-0.train:2222"],
        "evaluator": ["train-evaluator-0.train:2222"],
    }
    spec = spec_of({"tensorflow": []}, "worker-1", *tasks)
    text = env_of(spec["containers"][0])["TF_CONFIG"]
    assert text == json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}, separators=(",", ":"))
    assert "TF_CONFIG" not in env_of(spec["initContainers"][0])
    other = json.loads(env_of(spec_of({"tensorflow": []}, "other-0", *tasks)["containers"][0])["TF_CONFIG"])
    assert other["task"] == {"type": "other", "index": 0}


def test_the_arguments_of_tensorflow():
    spec = spec_of(
        {"tensorflow": ["--ps=server", "--worker=train", "--port=5000"]}, "server-0", ("server", 1), ("train", 1)
    )
    assert json.loads(env_of(spec["containers"][0])["TF_CONFIG"]) == {
        "cluster": {"ps": ["train-server-0.train:5000"], "worker": ["train-train-0.train:5000"]},
        "task": {"type": "ps", "index": 0},
    }


def test_tensorflow_says_nothing_to_somebody_who_is_alone():
    assert "TF_CONFIG" not in env_of(spec_of({"tensorflow": []}, "worker-0", ("worker", 1))["containers"][0])


# ----------------------------------------------------------------------------------------------------------- pytorch


def pytorch(pod, *tasks, arguments=(), **more):
    return spec_of({"pytorch": list(arguments), "svc": ["--inject-hosts-env=false"]}, pod, *tasks, **more)


@pytest.mark.parametrize(("pod", "rank"), [("master-0", "0"), ("worker-0", "1"), ("worker-1", "2"), ("other-0", None)])
def test_pytorch_tells_each_container_its_master_and_its_rank(pod, rank):
    spec = pytorch(pod, ("master", 1), ("worker", 2), ("other", 1))
    (container,) = spec["containers"]
    wanted = {"MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert env_of(container) == (wanted | {"RANK": rank} if rank is not None else wanted)
    assert ports_of(container) == {"pytorchjob-port": 23456}
    assert "MASTER_ADDR" not in env_of(spec["initContainers"][0])


def test_the_arguments_of_pytorch():
    arguments = ["--master=boss", "--worker", "hand", "--port=29500"]
    (container,) = pytorch("hand-1", ("boss", 1), ("hand", 3), arguments=arguments)["containers"]
    assert env_of(container) == {
        "MASTER_ADDR": "train-boss-0.train",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "RANK": "2",
    }
    assert ports_of(container) == {"pytorchjob-port": 29500}


def test_pytorch_adds_no_port_that_is_there_already():
    spec = {"containers": [{"name": "main", "image": "x", "ports": [{"name": "mine", "containerPort": 23456}]}]}
    (container,) = pytorch("master-0", spec=spec)["containers"]
    assert ports_of(container) == {"mine": 23456}


def test_pytorch_leaves_a_job_without_a_master_alone():
    (container,) = pytorch("worker-0", ("worker", 2))["containers"]
    assert (env_of(container), ports_of(container)) == ({}, {})


def test_pytorch_lets_workers_wait_for_their_master():
    arguments = ["--wait-master-enabled=true", "--wait-master-timeout=60", "--wait-master-image=mirror/busybox"]
    waiter = pytorch("worker-0", arguments=arguments)["initContainers"][-1]
    assert (waiter["name"], waiter["image"], waiter["command"][:2]) == (
        "wait-for-master",
        "mirror/busybox",
        ["sh", "-c"],
    )
    script = waiter["command"][2]
    assert "seq 1 30" in script
    assert "nc -z -w 2 train-master-0.train 23456" in script
    assert "/dev/tcp/train-master-0.train/23456" in script
    assert len(pytorch("master-0", arguments=arguments)["initContainers"]) == 1
    own = {"initContainers": [{"name": "wait-for-master", "image": "own"}], **NOTHING}
    assert pytorch("worker-0", arguments=arguments, spec=own)["initContainers"][0]["image"] == "own"


# --------------------------------------------------------------------------------------------------------------- mpi


def test_mpi_tells_the_master_its_workers_and_opens_the_port_everywhere():
    arguments = {"mpi": [], "svc": ["--inject-hosts-env=false"]}
    master = spec_of(arguments, "master-0")
    for container in (*master["initContainers"], *master["containers"]):
        assert env_of(container) == {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
        assert ports_of(container) == {"mpijob-port": 22}
    worker = spec_of(arguments, "worker-0")
    for container in (*worker["initContainers"], *worker["containers"]):
        assert env_of(container) == {}
        assert ports_of(container) == {"mpijob-port": 22}


def test_the_arguments_of_mpi_and_a_master_without_workers():
    arguments = {"mpi": ["--master=boss", "--worker=hand", "--port=2222"], "svc": ["--inject-hosts-env=false"]}
    container = spec_of(arguments, "boss-0", ("boss", 1), ("hand", 1))["containers"][0]
    assert (env_of(container), ports_of(container)) == ({"MPI_HOST": "train-hand-0.train"}, {"mpijob-port": 2222})
    assert env_of(spec_of(arguments, "boss-0", ("boss", 1))["containers"][0]) == {}


def test_mpi_brings_svc_and_ssh_with_it():
    assert {"Service/train", "Secret/train-ssh"} <= set(made_by({"mpi": []}))


# --------------------------------------------------------------------------------------------------------------- ray

RAY = {
    "containers": [
        {"name": "head", "image": "ray", "command": ["lost"]},
        {"name": "worker", "image": "ray"},
        {"name": "side", "image": "x"},
    ]
}


def test_ray_starts_a_head_and_workers_that_know_it():
    tasks = (("head", 1), ("worker", 1))
    head, idle, side = spec_of({"ray": []}, "head-0", *tasks, spec=RAY)["containers"]
    assert head["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001",
    ]
    assert ports_of(head) == {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
    assert "command" not in idle
    assert "command" not in side
    _, worker, _ = spec_of({"ray": []}, "worker-0", *tasks, spec=RAY)["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=train-head-0.train:6379"]


def test_ray_makes_a_service_for_the_head():
    body = made_by({"ray": []}, ("head", 1), ("worker", 1), spec=RAY)["Service/train-head-svc"]
    assert body["spec"] == {
        "type": "ClusterIP",
        "selector": {
            "volcano.sh/job-name": "train",
            "volcano.sh/job-namespace": "team",
            "volcano.sh/task-spec": "head",
        },
        "ports": [
            {"name": "gcs", "protocol": "TCP", "port": 6379, "targetPort": "gcs"},
            {"name": "dashboard", "protocol": "TCP", "port": 8265, "targetPort": "dashboard"},
            {"name": "client-server", "protocol": "TCP", "port": 10001, "targetPort": "client-server"},
        ],
    }


def test_the_arguments_of_ray():
    arguments = [
        "--head=boss",
        "--worker=hand",
        "--headContainer=main",
        "--workerContainer=main",
        "--port=1",
        "--dashboardPort=2",
        "--clientPort=3",
    ]
    made = made_by({"ray": arguments}, ("boss", 1), ("hand", 1), spec=NOTHING)
    (boss,) = made["Pod/train-boss-0"]["spec"]["containers"]
    assert "--port=1 --dashboard-port=2 --ray-client-server-port=3" in boss["command"][2]
    (hand,) = made["Pod/train-hand-0"]["spec"]["containers"]
    assert hand["command"][2] == "ray start --block --address=train-boss-0.train:1"
    assert made["Service/train-head-svc"]["spec"]["selector"]["volcano.sh/task-spec"] == "boss"


def test_ray_without_a_head_makes_no_pods_and_says_why():
    found = told(job_with({"ray": []}, ("worker", 1)), group="Inqueue")
    assert found.created == []
    assert ("PluginError", "plugin ray: job team/train has no task named 'head'; add it, or set --head") in found.events


# ---------------------------------------------------------------------------------------------------------- hcclrank


def rank(plugins, pod, *tasks, **more):
    return made_by(plugins, *tasks, **more)[f"Pod/train-{pod}"]["metadata"]["annotations"].get("hccl/rankIndex")


def test_hcclrank_counts_masters_before_workers():
    tasks = (("master", 2), ("worker", 2), ("other", 1))
    ranks = [rank({"hcclrank": []}, pod, *tasks) for pod in ("master-1", "worker-0", "worker-1", "other-0")]
    assert ranks == ["1", "2", "3", None]


def test_hcclrank_follows_a_rank_that_is_there():
    assert rank({"hcclrank": [], "pytorch": []}, "worker-1") == "2"
    spec = {"containers": [{"name": "main", "image": "x", "env": [{"name": "RANK", "value": "7"}]}]}
    assert rank({"hcclrank": []}, "worker-1", spec=spec) == "7"


def test_the_arguments_of_hcclrank_and_an_annotation_of_the_users():
    assert rank({"hcclrank": ["--master=a", "--worker=b"]}, "b-0", ("a", 3), ("b", 1)) == "3"
    own = {"metadata": {"annotations": {"hccl/rankIndex": "9"}}, "spec": NOTHING}
    job = a_job(a_task("worker", 1, template=own), phase="Pending", plugins={"hcclrank": []})
    pod = told(job, group="Inqueue").bodies["Pod/train-worker-0"]
    assert pod["metadata"]["annotations"]["hccl/rankIndex"] == "9"


def test_hcclrank_leaves_no_trace_in_the_status():
    found = told(job_with({"hcclrank": [], "env": []}), group=None)
    assert [key for key in found.job.status.controlled_resources if key.startswith("plugin-")] == ["plugin-env"]


# --------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], ("d", 1, False)),
        (["--text=a", "-number=2", "--flag"], ("a", 2, True)),
        (["--text", "a", "-number", "0x10", "-flag=T"], ("a", 16, True)),
        (["--flag=false"], ("d", 1, False)),
        (["--text=a=b"], ("a=b", 1, False)),
        (["--text="], ("", 1, False)),
        (["--number=x", "--text=a"], ("d", 1, False)),  # what cannot be read ends the reading
        (["--text=a", "--unknown", "--number=2"], ("a", 1, False)),
        (["--text=a", "word", "--number=2"], ("a", 1, False)),
        (["--text=a", "--", "--number=2"], ("a", 1, False)),
        (["---text=a"], ("d", 1, False)),
        (["--flag=maybe", "--text=a"], ("d", 1, False)),
        (["--text"], ("d", 1, False)),
        (["-", "--text=a"], ("d", 1, False)),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments, wanted):
    flags = Flags(arguments, {"text": "d", "number": 1, "flag": False})
    assert (flags.text("text"), flags.number("number"), flags.is_set("flag")) == wanted


# ------------------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    ("plugin", "tasks", "what"),
    [
        ("svc", (("worker", 100_000),), "plugin svc: the list of hosts"),
        ("ssh", (("worker", 100_000),), "plugin ssh: the list of hosts"),
        ("mpi", (("master", 1), ("worker", 10_000)), "plugin mpi: MPI_HOST"),
        ("tensorflow", (("chief", 1), ("worker", 10_000)), "plugin tensorflow: TF_CONFIG"),
    ],
)
def test_a_list_of_hosts_that_is_longer_than_anybody_could_read_is_told_and_makes_no_pods(plugin, tasks, what):
    found = told(job_with({plugin: []}, *tasks), group="Inqueue")
    assert found.created == []
    assert found.events[0][0] == "PluginError"
    assert found.events[0][1].startswith(f"{what} would have ")


def test_a_number_that_does_not_fit_into_64_bits_ends_the_reading_of_arguments():
    flags = Flags(["--port=0x" + "f" * 5_000, "--other=1"], {"port": 22, "other": 0})
    assert (flags.number("port"), flags.number("other")) == (22, 0)
