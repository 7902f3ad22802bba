"""What process nodes must do on any API server: real processes, real signals, real logs; their files are in process_files.py."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest
from tests.bodies import process_files
from tests.bodies.gate import a_gate, an_agent, ended, log, python
from tests.bodies.patience import PATIENCE_S
from tests.bodies.pretend_nodes import lease_of
from tests.bodies.world import World, running

from pumice.api import names
from pumice.api.core import Service
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.errors import Refused
from pumice.kube import errors
from pumice.local.nodes.process.devices import fake

GPU = "nvidia.com/gpu"

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

    async with a_gate() as gate, running(an_agent(world, folder, "gpus", gpus=fake(4))):
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


async def a_pod_that_asks_for_it_gets_a_signal_when_its_time_will_be_up(world: World, folder: Path) -> None:
    program = """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        wait("ready")
        print(signal.sigwait({signal.SIGUSR1}).name)
    """
    async with a_gate() as gate, running(an_agent(world, folder, "signals")):
        await world.submit(
            "p", "signals", container=python(program, gate=gate), annotations={names.TIME_LIMIT_SIGNAL: "SIGUSR1"}
        )
        await gate.open("ready")
        body = {"metadata": {"annotations": {names.TIME_LIMIT_ENDS: "2026-03-28T12:00:00Z"}}}
        await world.client.patch(Pod, "p", body, namespace=world.namespace)
        await world.phase("p", "Succeeded")
        assert await log(world, "p") == "SIGUSR1\n"


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


async def an_agent_that_stops_has_told_of_all_that_happened(world: World, folder: Path) -> None:
    program = """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        wait("ready")
        signal.sigwait({signal.SIGUSR1})
        wait("told")
    """
    async with a_gate() as gate:
        async with running(an_agent(world, folder, "tells")):
            signal_asked = {names.TIME_LIMIT_SIGNAL: "SIGUSR1"}
            await world.submit("p", "tells", container=python(program, gate=gate), annotations=signal_asked)
            await gate.open("ready")
            body = {"metadata": {"annotations": {names.TIME_LIMIT_ENDS: "2026-03-28T12:00:00Z"}}}
            await world.client.patch(Pod, "p", body, namespace=world.namespace)
            await gate.arrival("told")
        events = await world.client.list_json(by_struct(CoreEvent), namespace=world.namespace)
        told = {each["reason"] for each in events if each["involvedObject"]["name"] == "p"}
        assert {"Started", "SIGUSR1"} <= told


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
        async with asyncio.timeout(PATIENCE_S):
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


@contextlib.asynccontextmanager
async def a_command(world, *args):
    """`pumice node` as a person starts it; killed at the end if it is still there."""
    code = "from pumice.cli.main import main; main()"
    command = [sys.executable, "-c", code, "node", f"--kubeconfig={world.kubeconfig}", *args]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_told(process, event):
    """The facts of an event, as soon as the command's log tells of it."""
    told = []
    async with asyncio.timeout(PATIENCE_S):
        async for line in process.stderr:
            told.append(line.decode())
            if f'"event": "{event}"' in told[-1]:
                return json.loads(line)
    raise AssertionError("".join(told))


async def the_command_joins_and_leaves_in_good_order(world: World, folder: Path) -> None:
    async with a_gate() as gate, a_command(world, "--name=joined", f"--data-dir={folder}", "--gpus=2") as process:
        assert (await until_told(process, "node_registered"))["nvidia.com/gpu"] == "2"
        await world.submit("p", "joined", container=python("wait('p')", gate=gate))
        await gate.arrival("p")
        process.terminate()
        await gate.broken("p")
        assert (await world.phase("p", "Failed"))["reason"] == "Terminated"
        await until_told(process, "node_left")
        assert await process.wait() == 0


async def the_command_pretends(world: World, folder: Path) -> None:
    behaviour = (
        "--run=uniform:0s,10ms",
        "--failure-rate=1",
        "--seed=7",
        "--label=pool=a",
        "--taint=pretend:NoSchedule",
    )
    async with a_command(world, "--pretend=3", "--name=actor-", "--gpus=1", *behaviour) as process:
        assert (await until_told(process, "nodes_registered"))["nodes"] == 3
        node = await world.node("actor-2")
        assert (node["status"]["capacity"][GPU], node["metadata"]["labels"]["pool"]) == ("1", "a")
        assert {"key": "pretend", "effect": "NoSchedule"} in node["spec"]["taints"]
        await world.submit("p", "actor-2")
        assert ended(await world.phase("p", "Failed"))["exitCode"] == 1
        process.terminate()
        assert await process.wait() == 0


async def an_agent_that_is_killed_leaves_nothing_running(world: World, folder: Path) -> None:
    program = """
        if os.fork() == 0:
            os.setsid()
            wait("grandchild")
        wait("child")
    """
    arguments = ("--name=killed", f"--data-dir={folder}")
    async with a_gate() as gate:
        async with a_command(world, *arguments) as process:
            await until_told(process, "node_registered")
            await world.submit("p", "killed", restartPolicy="Always", container=python(program, gate=gate))
            await gate.arrival("child")
            await gate.arrival("grandchild")
            await world.phase("p", "Running")
            process.kill()
            await gate.broken("child")
            await gate.broken("grandchild")
        async with a_command(world, *arguments) as process:
            await until_told(process, "node_registered")
            assert (await world.phase("p", "Failed"))["reason"] == "Lost"


async def a_second_agent_in_the_same_folder_is_refused(world: World, folder: Path) -> None:
    arguments = ("--name=second", f"--data-dir={folder / 'first'}")
    async with running(an_agent(world, folder, "first")), a_command(world, *arguments) as process:
        _, told = await process.communicate()
        assert b"is used by another node's agent; give this one a --data-dir of its own" in told
        assert process.returncode == 5


async def a_node_that_another_agent_keeps_alive_is_not_taken_over(world: World, folder: Path) -> None:
    """Two agents under one name would run every pod twice."""
    async with running(an_agent(world, folder / "one", "same")):
        await lease_of(world, "same")
        with pytest.raises(Refused, match=r"'same' is kept by an agent that is alive .*; stop that one, or join with"):
            await an_agent(world, folder / "two", "same").run()


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
    a_pod_that_asks_for_it_gets_a_signal_when_its_time_will_be_up,
    a_pod_that_is_deleted_by_force_ends_too,
    a_container_that_fails_is_restarted_and_its_former_log_is_kept,
    a_pod_that_takes_too_long_is_ended,
    an_agent_that_stops_has_told_of_all_that_happened,
    an_agent_that_stops_takes_its_pods_along,
    only_pods_of_this_very_node_are_run,
    init_containers_run_in_order_and_sidecars_stay_until_the_end,
    an_init_container_that_fails_fails_the_pod,
    a_log_can_be_followed_while_it_is_written,
    a_log_that_is_not_there_is_explained,
    an_agent_that_starts_anew_reports_what_its_predecessor_ran_as_lost,
    a_node_that_another_agent_keeps_alive_is_not_taken_over,
    what_happens_is_told_in_events,
    the_command_joins_and_leaves_in_good_order,
    the_command_pretends,
    an_agent_that_is_killed_leaves_nothing_running,
    a_second_agent_in_the_same_folder_is_refused,
    *process_files.BODIES,
]
