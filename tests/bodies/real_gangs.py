"""Gangs of real processes: ranks that find their master by the pytorch plugin's variables, reduce, and resume from checkpoints.

The program is torch.distributed in small, in the standard library: rank 0 listens at MASTER_ADDR:MASTER_PORT, every step sums one
number of each rank, and every rank keeps its step in a file that outlives its pod.
"""

import sys
import types

from tests.bodies.gate import a_gate, an_agent, log, python
from tests.bodies.world import running

from pumice.api import names
from pumice.api.events import CoreEvent
from pumice.api.kinds import Kind
from pumice.api.priority import PriorityClass
from pumice.clock import RealClock
from pumice.local.nodes.process.devices import fake

RANKS = 3
STEPS = 6
PAUSE = 3  # where the first life of each rank waits for what happens to it

PROGRAM = """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    steps, pause = int(sys.argv[2]), int(sys.argv[3])
    checkpoint = pathlib.Path(sys.argv[1]) / f"rank-{rank}"
    resumed = checkpoint.exists()
    step = int(checkpoint.read_text()) if resumed else 0
    print("resumed at" if resumed else "began at", step)

    def connected():
        while True:
            try:
                return socket.create_connection(where)
            except OSError:
                time.sleep(0.01)


    if rank == 0:
        server = socket.create_server((socket.gethostbyname(where[0]), where[1]))
        peers = [server.accept()[0] for _ in range(size - 1)]
        files = [peer.makefile("r") for peer in peers]
    else:
        peer = connected()
        stream = peer.makefile("r")
    while step < steps:
        mine = rank + 1 + step
        if rank == 0:
            total = mine + sum(int(each.readline()) for each in files)
            for each in peers:
                each.sendall(f"{total}\\n".encode())
        else:
            peer.sendall(f"{mine}\\n".encode())
            total = int(stream.readline())
        step += 1
        checkpoint.write_text(str(step))
        print("step", step, "sum", total)
        if step == pause and not resumed:
            wait(f"rank {rank} at {step}")
    print("done")
"""


def sums(first, last):
    """What every rank prints from one step to another: the sum of rank + 1 + step over all ranks."""
    return [f"step {step + 1} sum {sum(rank + 1 + step for rank in range(RANKS))}" for step in range(first, last)]


def place_of(world, machine):
    """What an agent needs to join."""
    return types.SimpleNamespace(
        client=world.client,
        informers=world.informers,
        clock=RealClock(),
        authority=machine.authority,
        server=machine.server,
    )


async def a_gang_finds_its_master_reduces_and_resumes_from_its_checkpoint_after_an_eviction(
    world, machine, folder, *, program=PROGRAM, interpreter=sys.executable
):
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    node = f"{world.namespace}-machine"
    async with a_gate() as gate, running(an_agent(place_of(world, machine), folder, node)):
        container = python(program, str(checkpoints), str(STEPS), str(PAUSE), gate=gate)
        container["command"][0] = interpreter
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        tasks = [{"name": "master", "replicas": 1, "template": {"spec": spec}}]
        tasks += [{"name": "worker", "replicas": RANKS - 1, "template": {"spec": spec}}]
        await world.submit(tasks=tasks, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        for rank in range(RANKS):
            await gate.arrival(f"rank {rank} at {PAUSE}")
        first = await world.uids()
        assert (await log(world, "train-master-0")).splitlines() == ["began at 0", *sums(0, PAUSE)]
        await world.evict("train-worker-1")
        job = await world.phase("Completed", "Failed")
        assert job["status"]["state"]["phase"] == "Completed"
        assert job["status"]["retryCount"] == 1
        second = await world.uids()
        assert set(second) == set(first)
        assert not set(second.values()) & set(first.values())
        for pod in second:
            assert (await log(world, pod)).splitlines() == [f"resumed at {PAUSE}", *sums(PAUSE, STEPS), "done"]


# ------------------------------------------------------------------------------------------------------------ notice

# A rank works until it is told; then it writes down how far it is, says so on its own pod, and waits for its end. In its next life it
# does a few steps more. Every step that was ever done stands in its journal.
TOLD = """
    import datetime, json, ssl, urllib.request
    rank, folder, more = int(os.environ["RANK"]), pathlib.Path(sys.argv[1]), int(sys.argv[2])
    checkpoint, journal = folder / f"rank-{rank}", folder / f"journal-{rank}"
    resumed = checkpoint.exists()
    step = int(checkpoint.read_text()) if resumed else 0
    last = step + more if resumed else None
    told = []
    signal.signal(signal.SIGUSR1, lambda *_: told.append(True))

    def say_that_work_is_safe():
        secrets = pathlib.Path("/var/run/secrets/tokens")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        request = urllib.request.Request(
            f"https://{host}:{port}/api/v1/namespaces/{os.environ['NAMESPACE']}/pods/{os.environ['POD']}",
            json.dumps({"metadata": {"annotations": {"pumice.dev/checkpointed-at": now}}}).encode(),
            {
                "authorization": "Bearer " + (secrets / "token").read_text(),
                "content-type": "application/merge-patch+json",
            },
            method="PATCH",
        )
        urllib.request.urlopen(request, context=ssl.create_default_context(cafile=secrets / "ca.crt")).close()

    while step != last and not told:
        step += 1
        with journal.open("a") as lines:
            lines.write(f"{step}\\n")
        if step == 3 and not resumed:
            reported = gate(f"rank {rank} works")
        time.sleep(0.005)  # the work
    if told:
        checkpoint.write_text(str(step))
        say_that_work_is_safe()
        signal.pause()
"""
FURTHER_STEPS = 5
# An hour: a gang whose answer is not heard keeps the test waiting for longer than it has patience.
POLICY = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: eviction
    arguments: {notice: 1h}
- plugins:
  - name: predicates
"""
RBAC = "rbac.authorization.k8s.io"
ROLE = Kind(RBAC, "v1", "Role", "roles")
BINDING = Kind(RBAC, "v1", "RoleBinding", "rolebindings")


async def let_pods_write_on_themselves(world):
    metadata = {"name": "checkpoints"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    await world.client.create(ROLE, {"metadata": metadata, "rules": [rule]}, namespace=world.namespace)
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": world.namespace}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "checkpoints"}
    binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    await world.client.create(BINDING, binding, namespace=world.namespace)


def told_rank(node, folder, gate):
    """The pod of a rank that takes one GPU, knows itself, and may talk to the API server."""
    env = [
        {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/tokens"}]
    container = python(TOLD, str(folder), str(FURTHER_STEPS), gate=gate, env=env, volumeMounts=mounts)
    return on(node, container, volumes=[{"name": "token", "projected": {"sources": sources}}])


def on(node, container, *, gpus=1, **spec):
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container | {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        **spec,
    }


async def a_gang_that_is_told_writes_a_checkpoint_leaves_and_resumes_with_no_step_lost(world, machine, folder):
    checkpoints = folder / "told"
    checkpoints.mkdir()
    node, high = f"{world.namespace}-told", f"{world.namespace}-high"
    await let_pods_write_on_themselves(world)
    await world.client.create(PriorityClass, {"metadata": {"name": high}, "value": 1000})
    async with a_gate() as gate, running(an_agent(place_of(world, machine), folder, node, gpus=fake(2))):
        rank = {"spec": told_rank(node, checkpoints, gate)}
        tasks = [{"name": name, "replicas": 1, "template": rank} for name in ("master", "worker")]
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        await world.submit(tasks=tasks, policies=policies, annotations={names.CHECKPOINT_SIGNAL: "SIGUSR1"})
        for number in range(2):
            await gate.arrival(f"rank {number} works")
        urgent = on(node, python("print('urgent work is done')"), gpus=2)
        task = {"name": "only", "replicas": 1, "template": {"spec": urgent}}
        await world.submit("urgent", tasks=[task], plugins={}, priorityClassName=high)
        assert (await world.phase("Completed", "Failed", name="urgent"))["status"]["state"]["phase"] == "Completed"
        job = await world.phase("Completed", "Failed")
        assert (job["status"]["state"]["phase"], job["status"]["retryCount"]) == ("Completed", 1)

        async def told():
            return {"EvictionNotice", "SIGUSR1", "MembersEvicted"} <= {
                each["reason"] for each in await world.all(CoreEvent)
            }

        await world.until(told, "events of the notice, the signal and the eviction", CoreEvent)
    for number in range(2):
        done = [int(line) for line in (checkpoints / f"journal-{number}").read_text().splitlines()]
        assert done == list(range(1, len(done) + 1)), "a step was lost, or done twice"
        assert len(done) == int((checkpoints / f"rank-{number}").read_text()) + FURTHER_STEPS


BODIES = [
    a_gang_finds_its_master_reduces_and_resumes_from_its_checkpoint_after_an_eviction,
    a_gang_that_is_told_writes_a_checkpoint_leaves_and_resumes_with_no_step_lost,
]
