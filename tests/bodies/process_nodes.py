"""What process nodes must do on any API server: real processes, real files, real signals.

Programs in pods are small Python scripts. Where a test must hold one at a certain point it gives it a gate: the program
connects to the test and waits there, so nobody has to guess how long anything takes. A connection that breaks also shows
that whoever held it is dead.
"""

import asyncio
import base64
import contextlib
import os
import random
import sys
import textwrap
from pathlib import Path

import pytest
from tests.bodies.world import World, running

from pumice.api.core import ConfigMap, PersistentVolumeClaim, Secret, Service
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.kube import errors
from pumice.nodes.process.agent import ProcessAgent
from pumice.nodes.process.machine import ProcessSettings

GPU = "nvidia.com/gpu"

PRELUDE = """
import os, pathlib, signal, socket, sys, time
def gate(word):
    host, port = os.environ["GATE"].split(":")
    held = socket.create_connection((host, int(port)))
    held.sendall(word.encode() + b"\\n")
    return held
def wait(word):
    gate(word).recv(1)
"""


class Gate:
    """Where programs report and wait; arrivals are known by the word that they say."""

    def __init__(self) -> None:
        self.address = ""
        self._arrived: dict[str, asyncio.Future] = {}

    def _future(self, word):
        return self._arrived.setdefault(word, asyncio.get_running_loop().create_future())

    async def _meet(self, reader, writer):
        word = (await reader.readline()).decode().strip()
        if word:
            self._future(word).set_result((reader, writer))

    async def arrival(self, word):
        """Returns once somebody stands at the gate with this word."""
        async with asyncio.timeout(30):
            return await self._future(word)

    async def open(self, word):
        """Lets the one go who says this word, now or later."""
        _, writer = await self.arrival(word)
        writer.write(b"!")
        await writer.drain()

    async def broken(self, word):
        """Returns once the one who said this word is dead."""
        reader, _ = await self.arrival(word)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@contextlib.asynccontextmanager
async def a_gate():
    gate = Gate()
    server = await asyncio.start_server(gate._meet, "127.0.0.1", 0)
    gate.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gate
    finally:
        server.close()
        for arrived in gate._arrived.values():
            if arrived.done():
                arrived.result()[1].close()


def an_agent(world: World, folder: Path, name: str, **settings) -> ProcessAgent:
    made = ProcessSettings(
        name=name,
        folder=folder / name,
        authority=world.authority,
        server=world.server,
        **({"back_off_s_first": 0.05, "shutdown_grace_s": 1.0} | settings),
    )
    return ProcessAgent(world.client, world.informers, made, clock=world.clock, chance=random.Random(0))


def python(program: str, *args: str, gate: Gate | None = None, env=(), **container):
    """A container that runs a Python program."""
    given = [{"name": "GATE", "value": gate.address}] if gate else []
    command = [sys.executable, "-u", "-c", PRELUDE + textwrap.dedent(program), *args]
    return {"command": command, "env": [*given, *env], "name": "main", "image": "none"} | container


async def log(world, pod, container="main", **options):
    return (await world.client.log(pod, namespace=world.namespace, container=container, **options)).decode()


def ended(status, name="main"):
    containers = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    return next(each["state"]["terminated"] for each in containers if each["name"] == name)


# ------------------------------------------------------------------------------------------------------------ gangs

BARRIER = """
    rank, size, namespace = int(os.environ["RANK"]), int(os.environ["SIZE"]), os.environ["NAMESPACE"]
    def find(name):
        while True:
            try:
                return socket.gethostbyname(name)
            except OSError:
                time.sleep(0.01)
    peers = [find(f"worker-{n}.gang.{namespace}.svc.cluster.local") for n in range(size)]
    assert len(set(peers)) == size, peers
    assert [find(f"worker-{n}.gang") for n in range(size)] == peers
    assert find(socket.gethostname()) == peers[rank] == os.environ["IP"]
    if rank == 0:
        server = socket.create_server((peers[0], 9000))
        held = [server.accept()[0] for _ in range(size - 1)]
        seen = sorted(int(one.recv(1)) for one in held)
        for one in held:
            one.sendall(b"g")
        print("all here:", seen)
    else:
        while True:
            try:
                one = socket.create_connection((peers[0], 9000), source_address=(peers[rank], 0))
                break
            except OSError:
                time.sleep(0.01)
        one.sendall(str(rank).encode())
        assert one.recv(1) == b"g"
        print("passed")
"""


async def four_pods_find_each_other_by_name_and_meet_at_a_barrier(world: World, folder: Path) -> None:
    spec = {"clusterIP": "None", "selector": {"gang": "yes"}, "ports": [{"port": 9000}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gang"}, "spec": spec}
    await world.client.create(Service, service, namespace=world.namespace)
    async with running(an_agent(world, folder, "left")), running(an_agent(world, folder, "right")):
        for rank in range(4):
            env = [
                {"name": "RANK", "value": str(rank)},
                {"name": "SIZE", "value": "4"},
                {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ]
            await world.submit(
                f"member-{rank}",
                "left" if rank < 2 else "right",
                labels={"gang": "yes"},
                hostname=f"worker-{rank}",
                subdomain="gang",
                container=python(BARRIER, env=env),
            )
        for rank in range(4):
            status = await world.phase(f"member-{rank}", "Succeeded", "Failed")
            assert status["phase"] == "Succeeded", await log(world, f"member-{rank}")
        assert await log(world, "member-0") == "all here: [1, 2, 3]\n"
        assert await log(world, "member-3") == "passed\n"


async def a_headless_services_name_leads_to_its_pods(world: World, folder: Path) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 9000}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": spec}
    await world.client.create(Service, service, namespace=world.namespace)
    program = """
        while True:
            try:
                print(socket.gethostbyname("db"), flush=True)
                break
            except OSError:
                time.sleep(0.01)
    """
    async with a_gate() as gate, running(an_agent(world, folder, "service")):
        await world.submit("db-0", "service", labels={"app": "db"}, container=python("wait('up')", gate=gate))
        await world.submit("asks", "service", container=python(program))
        await world.phase("asks", "Succeeded")
        assert (await log(world, "asks")).strip() == (await world.pod("db-0"))["status"]["podIP"]
        await gate.open("up")


async def gpus_are_handed_out_by_number_and_never_twice(world: World, folder: Path) -> None:
    def asks(word, count):
        container = python(f"print(os.environ['CUDA_VISIBLE_DEVICES']); wait('{word}')", gate=gate)
        return container | {"resources": {"limits": {GPU: str(count)}, "requests": {GPU: str(count)}}}

    async with a_gate() as gate, running(an_agent(world, folder, "gpus", gpus=4)):
        await world.submit("a", "gpus", container=asks("a", 2))
        await gate.arrival("a")
        await world.submit("b", "gpus", container=asks("b", 2))
        await gate.arrival("b")
        assert (await log(world, "a"), await log(world, "b")) == ("0,1\n", "2,3\n")
        await world.submit("too-many", "gpus", container=asks("never", 1))
        assert (await world.phase("too-many", "Failed"))["reason"] == "OutOfnvidia.com/gpu"
        await world.submit("none", "gpus", container=python("print(repr(os.environ['CUDA_VISIBLE_DEVICES']))"))
        await world.phase("none", "Succeeded")
        assert await log(world, "none") == "''\n"
        await gate.open("a")
        await world.phase("a", "Succeeded")
        await world.submit("c", "gpus", container=asks("c", 1))
        await gate.arrival("c")
        assert await log(world, "c") == "0\n"
        await gate.open("b")
        await gate.open("c")


# ------------------------------------------------------------------------------------------------------------ ends


async def a_pod_ends_as_its_command_ends(world: World, folder: Path) -> None:
    async with running(an_agent(world, folder, "codes")):
        programs = {"ok": "print('fine')", "three": "sys.exit(3)", "killed": "os.kill(os.getpid(), signal.SIGKILL)"}
        for name, program in programs.items():
            await world.submit(name, "codes", container=python(program))
        ok = await world.phase("ok", "Succeeded")
        assert (ended(ok)["exitCode"], ended(ok)["reason"]) == (0, "Completed")
        three = await world.phase("three", "Failed")
        assert (ended(three)["exitCode"], ended(three)["reason"]) == (3, "Error")
        assert ended(await world.phase("killed", "Failed"))["exitCode"] == 137


async def a_command_that_is_not_there_is_told_plainly(world: World, folder: Path) -> None:
    async with running(an_agent(world, folder, "missing")):
        await world.submit("no-command", "missing")
        status = await world.phase("no-command", "Failed")
        assert status["reason"] == "CommandMissing"
        assert "process nodes do not pull images (here 'none')" in status["message"]
        await world.submit("no-program", "missing", container={"command": ["no-such-program"]})
        end = ended(await world.phase("no-program", "Failed"))
        assert (end["exitCode"], end["reason"]) == (128, "StartError")
        assert "'no-such-program' is not on this machine" in end["message"]


async def a_deleted_pod_is_asked_to_end_and_killed_after_its_grace(world: World, folder: Path) -> None:
    polite = """
        def bye(*_):
            print("bye")
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        wait("polite")
    """
    # The grandchild leaves session and process group: only the namespace's end can reach it.
    stubborn = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            wait("grandchild")
        wait("stubborn")
    """
    async with a_gate() as gate, running(an_agent(world, folder, "grace")):
        for name, program in (("polite", polite), ("stubborn", stubborn)):
            await world.submit(name, "grace", container=python(program, gate=gate))
            await gate.arrival(name)
            finalizers = {"metadata": {"finalizers": ["pumice.dev/test"]}}
            await world.client.patch(Pod, name, finalizers, namespace=world.namespace)
        await gate.arrival("grandchild")
        await world.client.delete(Pod, "polite", namespace=world.namespace)
        await world.client.delete(Pod, "stubborn", namespace=world.namespace, grace_s=1)
        assert (await world.phase("polite", "Succeeded", "Failed"))["phase"] == "Succeeded"
        assert await log(world, "polite") == "bye\n"
        assert ended(await world.phase("stubborn", "Failed"))["exitCode"] == 137
        await gate.broken("grandchild")
        for name in ("polite", "stubborn"):
            nothing = {"metadata": {"finalizers": None}}
            await world.client.patch(Pod, name, nothing, namespace=world.namespace)
            await world.gone(name)


async def a_pod_that_is_deleted_by_force_ends_too(world: World, folder: Path) -> None:
    async with a_gate() as gate, running(an_agent(world, folder, "forced")):
        await world.submit("p", "forced", container=python("wait('p')", gate=gate))
        await gate.arrival("p")
        await world.client.delete(Pod, "p", namespace=world.namespace, grace_s=0)
        await gate.broken("p")


async def a_container_that_fails_is_restarted_and_its_former_log_is_kept(world: World, folder: Path) -> None:
    program = """
        count = pathlib.Path("/scratch/count")
        tries = len(count.read_text()) if count.exists() else 0
        count.write_text("x" * (tries + 1))
        print("try", tries)
        sys.exit(0 if tries == 3 else 7)
    """
    mounts = [{"name": "work", "mountPath": "/scratch"}]
    async with running(an_agent(world, folder, "restarts")):
        await world.submit(
            "p",
            "restarts",
            restartPolicy="OnFailure",
            volumes=[{"name": "work", "emptyDir": {}}],
            container=python(program, volumeMounts=mounts),
        )
        status = (await world.phase("p", "Succeeded"))["containerStatuses"][0]
        assert status["restartCount"] == 3
        assert status["lastState"]["terminated"]["exitCode"] == 7
        assert await log(world, "p") == "try 3\n"
        assert await log(world, "p", previous=True) == "try 2\n"


async def a_pod_that_takes_too_long_is_ended(world: World, folder: Path) -> None:
    async with a_gate() as gate, running(an_agent(world, folder, "deadline")):
        await world.submit("p", "deadline", activeDeadlineSeconds=1, container=python("wait('p')", gate=gate))
        status = await world.phase("p", "Failed")
        assert status["reason"] == "DeadlineExceeded"
        await gate.broken("p")


async def an_agent_that_stops_takes_its_pods_along(world: World, folder: Path) -> None:
    async with a_gate() as gate:
        async with running(an_agent(world, folder, "stops")):
            container = python("wait('p')", gate=gate)
            await world.submit("p", "stops", restartPolicy="Always", container=container)
            await gate.arrival("p")
        await gate.broken("p")
        status = await world.phase("p", "Failed")
        assert status["reason"] == "Terminated"
        ready = next(each for each in (await world.node("stops"))["status"]["conditions"] if each["type"] == "Ready")
        assert ready["status"] != "True"


async def only_pods_of_this_very_node_are_run(world: World, folder: Path) -> None:
    async with a_gate() as gate, running(an_agent(world, folder, "mine")):
        await world.submit("other", "not-mine", container=python("wait('other')", gate=gate))
        await world.submit("own", "mine", container=python("wait('own')", gate=gate))
        await gate.arrival("own")
        assert (await world.pod("other"))["status"]["phase"] == "Pending"
        assert "other" not in gate._arrived
        await gate.open("own")


# ------------------------------------------------------------------------------------------------------------ order


async def init_containers_run_in_order_and_sidecars_stay_until_the_end(world: World, folder: Path) -> None:
    def writes(word, then="", **container):
        program = f"pathlib.Path('/scratch/story').open('a').write('{word} '); {then}"
        return python(program, gate=gate, volumeMounts=[{"name": "work", "mountPath": "/scratch"}], **container)

    sidecar = """
        def bye(*_):
            pathlib.Path("/scratch/story").open("a").write("sidecar-ends ")
            print(pathlib.Path("/scratch/story").read_text())
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        pathlib.Path("/scratch/story").open("a").write("sidecar ")
        wait("sidecar")
    """
    mounts = [{"name": "work", "mountPath": "/scratch"}]
    async with a_gate() as gate, running(an_agent(world, folder, "order")):
        await world.submit(
            "p",
            "order",
            volumes=[{"name": "work", "emptyDir": {}}],
            initContainers=[
                writes("first", name="first"),
                python(sidecar, gate=gate, name="sidecar", volumeMounts=mounts, restartPolicy="Always"),
                writes("second", "wait('second')", name="second"),
            ],
            container=writes("main"),
        )
        await gate.arrival("sidecar")
        await gate.arrival("second")
        status = await world.phase("p", "Pending")
        assert [each["ready"] for each in status["initContainerStatuses"]] == [True, True, False]
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
        await gate.open("second")
        status = await world.phase("p", "Succeeded")
        assert ended(status, "sidecar")["exitCode"] == 0
        story = (await log(world, "p", "sidecar")).split()
        assert story[0] == "first"
        assert sorted(story[1:3]) == ["second", "sidecar"]  # a sidecar has started once its process has
        assert story[3:] == ["main", "sidecar-ends"]


async def an_init_container_that_fails_fails_the_pod(world: World, folder: Path) -> None:
    async with running(an_agent(world, folder, "init")):
        inits = [python("sys.exit(4)", name="first"), python("print('never')", name="second")]
        await world.submit("p", "init", initContainers=inits, container=python("print('never')"))
        status = await world.phase("p", "Failed")
        assert ended(status, "first")["exitCode"] == 4
        assert "waiting" in status["containerStatuses"][0]["state"]


# ------------------------------------------------------------------------------------------------------------ files


async def config_and_secrets_are_files_that_follow_their_sources(world: World, folder: Path) -> None:
    program = """
        config = pathlib.Path("/etc/trainer/config")
        print(config.read_text(), oct(config.stat().st_mode & 0o777), sorted(p.name for p in config.parent.glob("[!.]*")))
        secret = pathlib.Path("/var/run/keys/deep/token")
        print(secret.read_bytes(), oct(secret.stat().st_mode & 0o777))
        fixed = pathlib.Path("/opt/fixed.yaml")
        print(fixed.read_text(), pathlib.Path("/podinfo/labels").read_text())
        gate("ready")
        while config.read_text() != "two" or "fast" not in pathlib.Path("/podinfo/labels").read_text():
            time.sleep(0.01)
        print("changed; the single file is still", fixed.read_text())
        try:
            config.write_text("mine")
        except OSError:
            print("and read-only")
    """
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}
    await world.client.create(
        Secret, token | {"data": {"token": base64.b64encode(b"\0\xff").decode()}}, namespace=world.namespace
    )
    await world.config("trainer", config="one", extra="x")
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    items = [{"key": "token", "path": "deep/token", "mode": 0o400}]
    volumes = [
        {"name": "config", "configMap": {"name": "trainer", "defaultMode": 0o640}},
        {"name": "keys", "secret": {"secretName": "keys", "items": items}},
        {"name": "info", "downwardAPI": {"items": [labels]}},
    ]
    mounts = [
        {"name": "config", "mountPath": "/etc/trainer"},
        {"name": "keys", "mountPath": "/var/run/keys"},
        {"name": "config", "mountPath": "/opt/fixed.yaml", "subPath": "config"},
        {"name": "info", "mountPath": "/podinfo"},
    ]
    async with a_gate() as gate, running(an_agent(world, folder, "files")):
        container = python(program, gate=gate, volumeMounts=mounts)
        await world.submit("p", "files", labels={"speed": "slow"}, volumes=volumes, container=container)
        await gate.arrival("ready")
        await world.client.patch(ConfigMap, "trainer", {"data": {"config": "two"}}, namespace=world.namespace)
        await world.client.patch(Pod, "p", {"metadata": {"labels": {"speed": "fast"}}}, namespace=world.namespace)
        await world.phase("p", "Succeeded")
        assert (await log(world, "p")).splitlines() == [
            "one 0o640 ['config', 'extra']",
            "b'\\x00\\xff' 0o400",
            'one speed="slow"',
            "changed; the single file is still one",
            "and read-only",
        ]


async def the_environment_is_what_the_pod_asked_for(world: World, folder: Path) -> None:
    await world.config("settings", rate="0.1", NAME="from-config")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": "p$w"}}
    await world.client.create(Secret, secret, namespace=world.namespace)
    fields = {"POD": "metadata.name", "NODE": "spec.nodeName", "TEAM": "metadata.labels['team']"}
    env = [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": True}}},
        {"name": "GREETING", "value": "$(POD) of $(TEAM), $$(POD), $(NOBODY)"},
    ]
    resources = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
    program = """
        for name in ("NODE", "CORES", "MIB", "PASSWORD", "RATE", "GREETING", "CFG_NAME"):
            print(name, os.environ[name])
        print("MAYBE" in os.environ, os.getcwd(), sys.argv[1:], sorted(set(os.environ) & {"SECRET_OF_THE_AGENT"}))
    """
    container = python(
        program,
        "--rate=$(RATE)",
        "$(NOBODY)",
        env=env,
        envFrom=[{"prefix": "CFG_", "configMapRef": {"name": "settings"}}],
        resources=resources,
        workingDir="/made/for/this",
    )
    async with running(an_agent(world, folder, "env", capacity={"cpu": "8"})):
        await world.submit("p", "env", labels={"team": "red"}, container=container)
        await world.phase("p", "Succeeded", "Failed")
        assert (await log(world, "p")).splitlines() == [
            "NODE env",
            "CORES 2",
            "MIB 64",
            "PASSWORD p$w",
            "RATE 0.1",
            "GREETING p of red, $(POD), $(NOBODY)",
            "CFG_NAME from-config",
            "False /made/for/this ['--rate=0.1', '$(NOBODY)'] []",
        ]


async def a_pod_waits_for_config_that_is_still_to_come(world: World, folder: Path) -> None:
    env = [{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "rate"}}}]
    volume = {"name": "later", "configMap": {"name": "later"}}
    mounts = [{"name": "later", "mountPath": "/later"}]
    program = "print(os.environ['RATE'], *pathlib.Path('/later').glob('[!.]*'))"

    def waits_for_late(pod):
        state = pod["status"].get("containerStatuses", [{"state": {}}])[0]["state"]
        return state.get("waiting", {}).get("reason") == "CreateContainerConfigError"

    async with running(an_agent(world, folder, "late")):
        container = python(program, env=env, volumeMounts=mounts)
        await world.submit("p", "late", volumes=[volume], container=container)
        await world.config("later", key="x")
        pod = await world.until("p", waits_for_late)
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["message"] == 'configmap "late" not found'
        await world.config("late", rate="5")
        await world.phase("p", "Succeeded")
        assert await log(world, "p") == "5 /later/key\n"


CHECKPOINT = """
    step = pathlib.Path("/checkpoints/step")
    begin = int(step.read_text()) if step.exists() else 0
    print("resumed at", begin)
    for number in range(begin, 6):
        step.write_text(str(number + 1))
        if number == 2 and begin == 0:
            wait("half")
    print("done")
"""


async def a_pod_that_was_evicted_resumes_from_the_checkpoint_on_its_claim(world: World, folder: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "ckpt"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await world.client.create(PersistentVolumeClaim, claim, namespace=world.namespace)
    volumes = [{"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}]
    mounts = [{"name": "ckpt", "mountPath": "/checkpoints"}]
    async with a_gate() as gate, running(an_agent(world, folder, "claims")):
        container = python(CHECKPOINT, gate=gate, volumeMounts=mounts)
        await world.submit("trainer", "claims", volumes=volumes, container=container)
        await gate.arrival("half")
        await world.client.evict("trainer", namespace=world.namespace)
        await world.gone("trainer")
        await world.submit("trainer", "claims", volumes=volumes, container=container)
        await world.phase("trainer", "Succeeded")
        assert await log(world, "trainer") == "resumed at 3\ndone\n"


async def a_host_path_is_used_within_the_allowed_root_and_refused_elsewhere(world: World, folder: Path) -> None:
    allowed = folder / "allowed"
    allowed.mkdir()
    (allowed / "out").symlink_to("/etc")

    def volume(path):
        return [{"name": "v", "hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}]

    container = python("pathlib.Path('/v/hello').write_text('hi')", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    async with running(an_agent(world, folder, "hostpath", host_roots=(allowed,))):
        await world.submit("good", "hostpath", volumes=volume(allowed / "a" / "b"), container=container)
        await world.phase("good", "Succeeded")
        assert (allowed / "a" / "b" / "hello").read_text() == "hi"
        for name, path in (("elsewhere", "/etc"), ("by-link", allowed / "out")):
            await world.submit(name, "hostpath", volumes=volume(path), container=container)
            status = await world.phase(name, "Failed")
            assert status["reason"] == "FailedMount"
            assert f"hostPath {path} is outside of what this node allows ({allowed})" in status["message"]


async def a_link_inside_a_volume_leads_nowhere_else(world: World, folder: Path) -> None:
    """A pod may put a link into its volume, but a later mount of that path does not follow it out."""
    allowed = folder / "shared"
    allowed.mkdir()
    volumes = [{"name": "v", "hostPath": {"path": str(allowed)}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    async with running(an_agent(world, folder, "links", host_roots=(allowed,))):
        plants = python("os.symlink('/etc', '/v/sub')", volumeMounts=mounts)
        await world.submit("plants", "links", volumes=volumes, container=plants)
        await world.phase("plants", "Succeeded")
        follows = python("print(os.listdir('/v'))", volumeMounts=[mounts[0] | {"subPath": "sub"}])
        await world.submit("follows", "links", volumes=volumes, container=follows)
        end = ended(await world.phase("follows", "Failed"))
        assert end["reason"] == "StartError"
        assert f"leads to /etc, which is outside of {allowed}" in end["message"]


async def mount_points_are_made_without_touching_the_machine(world: World, folder: Path) -> None:
    places = ["/brand-new/deep", "/etc/brand-new", "/usr/brand-new", "/scratch/nested"]
    program = """
        for place in sys.argv[1:]:
            pathlib.Path(place, "file").write_text("x")
        pathlib.Path("/dev/termination-log").write_text("done well")
        print(pathlib.Path("/etc/passwd").exists(), pathlib.Path("/dev/null").is_char_device(), os.getpid() < 100)
    """
    mounts = [{"name": "v", "mountPath": place} for place in places] + [{"name": "w", "mountPath": "/scratch"}]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    async with running(an_agent(world, folder, "mounts")):
        await world.submit("p", "mounts", volumes=volumes, container=python(program, *places, volumeMounts=mounts))
        status = await world.phase("p", "Succeeded", "Failed")
        assert await log(world, "p") == "True True True\n"
        assert ended(status)["message"] == "done well"
        assert not any(map(os.path.exists, (*places, "/brand-new", "/dev/termination-log")))


async def a_pod_may_ask_the_api_server_who_it_is(world: World, folder: Path) -> None:
    program = """
        import json, ssl, urllib.request
        folder = pathlib.Path("/var/run/secrets/tokens")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        request = urllib.request.Request(
            f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json.dumps(review).encode(),
            {"authorization": "Bearer " + (folder / "token").read_text(), "content-type": "application/json"},
        )
        trust = ssl.create_default_context(cafile=folder / "ca.crt")
        with urllib.request.urlopen(request, context=trust) as answer:
            print(json.load(answer)["status"]["userInfo"]["username"], (folder / "namespace").read_text())
    """
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volumes = [{"name": "token", "projected": {"sources": sources}}]
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/tokens"}]
    async with running(an_agent(world, folder, "tokens")):
        await world.submit("p", "tokens", volumes=volumes, container=python(program, volumeMounts=mounts))
        await world.phase("p", "Succeeded", "Failed")
        expected = f"system:serviceaccount:{world.namespace}:default {world.namespace}\n"
        assert await log(world, "p") == expected


# ------------------------------------------------------------------------------------------------------------ logs


async def a_log_can_be_followed_while_it_is_written(world: World, folder: Path) -> None:
    program = """
        print("first")
        wait("middle")
        print("to stderr", file=sys.stderr)
        wait("end")
        print("last", end="")
    """
    async with a_gate() as gate, running(an_agent(world, folder, "follow")):
        await world.submit("p", "follow", container=python(program, gate=gate))
        await gate.arrival("middle")
        following = world.client.follow_log("p", namespace=world.namespace)
        async with asyncio.timeout(30):
            assert await anext(following) == b"first\n"
            await gate.open("middle")
            assert await anext(following) == b"to stderr\n"
            await gate.open("end")
            assert [chunk async for chunk in following] == [b"last"]
        await world.phase("p", "Succeeded")
        assert await log(world, "p", tail_lines=2) == "to stderr\nlast"


async def a_log_that_is_not_there_is_explained(world: World, folder: Path) -> None:
    async with a_gate() as gate, running(an_agent(world, folder, "nolog")):
        inits = [python("wait('init')", gate=gate, name="init")]
        await world.submit("p", "nolog", initContainers=inits, container=python("print('x')"))
        await gate.arrival("init")
        for options, words in (
            ({}, 'container "main" in pod "p" is waiting to start: PodInitializing'),
            ({"container": "init", "previous": True}, 'previous terminated container "init" in pod "p" not found'),
        ):
            with pytest.raises(errors.Invalid, match=words):
                await log(world, "p", **options)
        await gate.open("init")


# ------------------------------------------------------------------------------------------------------------ agents


async def an_agent_that_starts_anew_reports_what_its_predecessor_ran_as_lost(world: World, folder: Path) -> None:
    """What a killed agent leaves in the API server: a pod that runs, as far as anybody knows."""
    started = {"startTime": "2026-01-31T12:00:00Z", "podIP": "127.64.9.9", "podIPs": [{"ip": "127.64.9.9"}]}
    state = {"state": {"running": {"startedAt": "2026-01-31T12:00:00Z"}}, "restartCount": 2}
    container = {"name": "main", "image": "none", "imageID": "", "ready": True} | state
    status = {"phase": "Running", "containerStatuses": [container]} | started
    await world.submit("p", "anew", restartPolicy="Always", container=python("print('never again')"))
    await world.client.patch(Pod, "p", {"status": status}, namespace=world.namespace, subresource="status")
    async with running(an_agent(world, folder, "anew")):
        lost = await world.phase("p", "Failed")
        assert lost["reason"] == "Lost"
        assert (ended(lost)["reason"], ended(lost)["exitCode"]) == ("ContainerStatusUnknown", 137)
        assert lost["containerStatuses"][0]["restartCount"] == 2
        await world.client.delete(Pod, "p", namespace=world.namespace)
        await world.gone("p")


async def what_happens_is_told_in_events(world: World, folder: Path) -> None:
    agent = an_agent(world, folder, "events")
    async with running(agent):
        await world.submit("p", "events", container={"command": ["no-such-program"]})
        await world.phase("p", "Failed")
        await agent._recorder.write(everything=True)
        events = await world.client.list_json(by_struct(CoreEvent), namespace=world.namespace)
        told = [(each["type"], each["reason"]) for each in events if each["involvedObject"]["name"] == "p"]
        assert ("Warning", "Failed") in told


BODIES = [
    four_pods_find_each_other_by_name_and_meet_at_a_barrier,
    a_headless_services_name_leads_to_its_pods,
    gpus_are_handed_out_by_number_and_never_twice,
    a_pod_ends_as_its_command_ends,
    a_command_that_is_not_there_is_told_plainly,
    a_deleted_pod_is_asked_to_end_and_killed_after_its_grace,
    a_pod_that_is_deleted_by_force_ends_too,
    a_container_that_fails_is_restarted_and_its_former_log_is_kept,
    a_pod_that_takes_too_long_is_ended,
    an_agent_that_stops_takes_its_pods_along,
    only_pods_of_this_very_node_are_run,
    init_containers_run_in_order_and_sidecars_stay_until_the_end,
    an_init_container_that_fails_fails_the_pod,
    config_and_secrets_are_files_that_follow_their_sources,
    the_environment_is_what_the_pod_asked_for,
    a_pod_waits_for_config_that_is_still_to_come,
    a_pod_that_was_evicted_resumes_from_the_checkpoint_on_its_claim,
    a_host_path_is_used_within_the_allowed_root_and_refused_elsewhere,
    a_link_inside_a_volume_leads_nowhere_else,
    mount_points_are_made_without_touching_the_machine,
    a_pod_may_ask_the_api_server_who_it_is,
    a_log_can_be_followed_while_it_is_written,
    a_log_that_is_not_there_is_explained,
    an_agent_that_starts_anew_reports_what_its_predecessor_ran_as_lost,
    what_happens_is_told_in_events,
]
