"""What the controllers beside the Job's do on every API server: the same bodies run on the embedded server and on the real one.

They live in the Jobs' place (tests/bodies/jobs.py): scheduler, all controllers, and two pretend nodes of eight GPUs.
"""

import asyncio
import contextlib

from aiohttp import web

from pumice.api import names
from pumice.api.apps import ReplicaSet
from pumice.api.batch import CronJob, Job
from pumice.api.bus import Command
from pumice.api.core import ConfigMap, Namespace, Node
from pumice.api.flow import JobFlow, JobTemplate
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.topology import HyperNode
from pumice.kube import errors


async def make(world, struct, name, *, metadata=None, **fields):
    kind = by_struct(struct)
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **(metadata or {})}, **fields}
    return (await world.client.create(struct, body, namespace=world.namespace if kind.namespaced else "")).json()


async def get(world, struct, name):
    namespace = world.namespace if by_struct(struct).namespaced else ""
    try:
        return (await world.client.get(struct, name, namespace=namespace)).json()
    except errors.NotFound:
        return None


def pod_spec(world, gpus=1):
    template = world.task("any", 1, gpus=gpus)["template"]["spec"]
    return {**template, "schedulerName": "volcano"}


async def until_one(world, struct, name, test, what):
    """The object of this name once `test` holds for it; None stands for one that is not there."""

    async def look():
        found = await get(world, struct, name)
        return (found or True) if test(found) else None

    return await world.until(look, what, struct)


def status_of(thing):
    return (thing or {}).get("status", {})


# -------------------------------------------------------------------------------------------------------- pod groups


async def a_bare_pod_gets_its_group_and_runs_alone(world):
    pod = await make(world, Pod, "alone", spec=pod_spec(world))
    name = f"podgroup-{pod['metadata']['uid']}"
    group = await until_one(
        world, PodGroup, name, lambda found: status_of(found).get("phase") == "Running", "a group that runs"
    )
    assert group["spec"]["minMember"] == 1
    assert group["spec"]["minResources"]["requests.nvidia.com/gpu"] == "1"
    found = await until_one(
        world,
        Pod,
        "alone",
        lambda found: names.GROUP_NAME in found["metadata"].get("annotations", {}),
        "the group's name on the pod",
    )
    assert found["metadata"]["annotations"][names.GROUP_NAME] == name
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]
    ours = {what: count for what, count in world.controllers.executor.writes.items() if not what.endswith("Queue")}
    assert ours == {"create PodGroup": 1, "patch Pod": 1}
    await world.end("alone")
    await until_one(world, PodGroup, name, lambda found: status_of(found).get("phase") == "Completed", "its end")
    await world.client.delete(Pod, "alone", namespace=world.namespace, grace_s=0)
    await until_one(world, PodGroup, name, lambda found: found is None, "nothing of the group")


async def groups_are_in_the_queue_that_their_namespace_names(world):
    """Nobody but the controllers has read the annotation: no webhook answers here."""
    home = f"{world.namespace}-home"
    await make(world, Queue, home, spec={"weight": 1, "parent": "root"})
    is_known = asyncio.Event()

    def see(namespaces):
        if any(each.metadata.annotations.get(names.QUEUE_NAME) == home for each in namespaces):
            is_known.set()

    world.controllers.cache.of(Namespace).subscribe(see)
    marks = {"metadata": {"annotations": {names.QUEUE_NAME: home}}}
    await world.client.patch(Namespace, world.namespace, marks)
    async with asyncio.timeout(world.patience_s):
        await is_known.wait()
    pod = await make(world, Pod, "alone", spec=pod_spec(world))
    await world.submit("train", workers=1)
    await until_one(world, PodGroup, f"podgroup-{pod['metadata']['uid']}", bool, "a group of the pod")
    job = await world.job("train")
    await until_one(world, PodGroup, f"train-{job['metadata']['uid']}", bool, "a group of the Job")
    assert {group["spec"]["queue"] for group in await world.all(PodGroup)} == {home}
    await world.client.patch(Namespace, world.namespace, {"metadata": {"annotations": {names.QUEUE_NAME: None}}})
    await world.client.delete(Queue, home)


async def replicas(world, name, count, *, gpus, **annotations):
    """A ReplicaSet and its pods; where no controller of Kubernetes' makes them, they are made here."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {**pod_spec(world, gpus), "restartPolicy": "Always"}}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    made = await make(world, ReplicaSet, name, metadata={"annotations": annotations}, spec=spec)
    if world.makes_no_replicas:
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        for number in range(count):
            metadata = {"labels": labels, "ownerReferences": [owner]}
            await make(world, Pod, f"{name}-{number}", metadata=metadata, spec=template["spec"])
    return made


async def bound(world):
    return [name for name, pod in (await world.pods()).items() if pod["spec"].get("nodeName")]


async def pods_of_a_workload_that_asks_for_a_gang_start_together_or_not_at_all(world):
    """Three pods of five GPUs on two nodes of eight: a gang of three never starts, and a gang of two does."""
    made = await replicas(world, "serve", 3, gpus=5, **{names.GROUP_MIN_MEMBER: "3"})
    name = f"podgroup-{made['metadata']['uid']}"

    def waits(found):
        conditions = status_of(found).get("conditions", [])
        return any(each["type"] == "Unschedulable" and each["status"] == "True" for each in conditions)

    await until_one(world, PodGroup, name, waits, "a gang that cannot start")
    assert await bound(world) == []
    change = {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "2"}}}
    await world.client.patch(ReplicaSet, "serve", change, namespace=world.namespace)

    async def two_run():
        return len(await bound(world)) == 2

    await world.until(two_run, "two pods on their nodes", PodGroup)
    group = await get(world, PodGroup, name)
    assert (group["spec"]["minMember"], group["spec"]["minResources"]["nvidia.com/gpu"]) == (2, "10")
    assert len(await world.all(PodGroup)) == 1
    await world.client.delete(ReplicaSet, "serve", namespace=world.namespace)

    async def all_is_gone():
        return not await world.all(Pod) and not await world.all(PodGroup)

    await world.until(all_is_gone, "nothing of the workload", PodGroup)


# ------------------------------------------------------------------------------------------------------------ queues


async def order(world, action, queue):
    uid = (await get(world, Queue, queue))["metadata"]["uid"]
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": uid}
    await make(world, Command, f"{action.lower()}-{queue}", action=action, target=target)


async def until_state(world, queue, state, **counts):
    def test(found):
        status = status_of(found)
        return status.get("state") == state and all(status.get(key, 0) == value for key, value in counts.items())

    return await until_one(world, Queue, queue, test, f"queue {queue} {state} with {counts}")


async def a_queue_closes_with_its_parent_when_its_last_gang_is_gone_and_opens_with_it(world):
    above, below = f"{world.namespace}-above", f"{world.namespace}-below"
    await make(world, Queue, above, spec={})
    await until_one(world, Queue, above, lambda found: found["spec"].get("parent") == "root", "a parent")
    await make(world, Queue, below, spec={"parent": above})
    await until_state(world, below, "Open")
    await world.submit("train", workers=1, plugins={}, queue=below)
    await world.phase("Running", running=2)
    await until_state(world, below, "Open", running=1, pending=0, inqueue=0)
    await order(world, "CloseQueue", above)
    await until_state(world, above, "Closed")
    queue = await until_state(world, below, "Closing")
    assert queue["metadata"]["annotations"][names.CLOSED_BY_PARENT] == "true"
    managers = {each["manager"]: each["fieldsV1"] for each in queue["metadata"]["managedFields"]}
    assert managers["queue-controller"] == {"f:status": {"f:state": {}}}
    await world.client.delete(Job, "train", namespace=world.namespace)
    await until_state(world, below, "Closed", running=0)
    await order(world, "OpenQueue", above)
    await until_state(world, above, "Open")
    await until_state(world, below, "Open")

    async def commands_are_gone():
        return not await world.all(Command)

    await world.until(commands_are_gone, "no commands")
    for name in (below, above):
        await world.client.delete(Queue, name)


# -------------------------------------------------------------------------------------------------------------- flows


async def templates(world, *template_names, run="0s"):
    for name in template_names:
        spec = {
            "schedulerName": "volcano",
            "minAvailable": 1,
            "queue": "default",
            "tasks": [world.task("w", 1, run=run)],
        }
        await make(world, JobTemplate, name, spec=spec)


async def until_flow(world, phase):
    def test(found):
        return status_of(found).get("state", {}).get("phase") == phase

    return await until_one(world, JobFlow, "f", test, f"a flow that is {phase}")


async def a_flow_of_four_jobs_runs_in_order(world):
    await templates(world, "a", "b", "c", "d")
    seen = {}  # job -> the phases of all jobs when it first appeared

    def note(news):
        for change in news:
            job = getattr(change, "object", None)
            if job is not None and job.metadata.namespace == world.namespace:
                phases = {each.metadata.name: each.status.state.phase for each in jobs.objects.values()}
                seen.setdefault(job.metadata.name, phases)

    jobs = world.informers.of(Job)
    leave = jobs.subscribe(note)
    waits = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    parts = [{"name": name, **({"dependsOn": {"targets": on}} if on else {})} for name, on in waits.items()]
    parts[3]["patch"] = {"jobSpec": {"minSuccess": 1}}
    await make(world, JobFlow, "f", spec={"flows": parts, "jobRetainPolicy": "retain"})
    flow = await until_flow(world, "Succeed")
    leave()
    assert flow["status"]["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]
    for name, on in waits.items():
        assert all(seen[f"f-{name}"].get(f"f-{target}") == "Completed" for target in on), seen
    last = await get(world, Job, "f-d")
    assert last["spec"]["minSuccess"] == 1
    assert last["metadata"]["labels"][names.CREATED_BY_JOB_FLOW] == f"{world.namespace}.f"
    listed = await until_one(
        world, JobTemplate, "a", lambda found: status_of(found).get("jobDependsOnList"), "a list of jobs"
    )
    assert listed["status"]["jobDependsOnList"] == ["f-a"]
    await world.client.delete(JobFlow, "f", namespace=world.namespace)

    async def all_is_gone():
        return not await world.all(Job) and not await world.all(Pod)

    await world.until(all_is_gone, "nothing of the flow")


@contextlib.asynccontextmanager
async def a_server(answers):
    async def handle(request):
        return web.Response(status=answers.get(request.path, 404))

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site._server.sockets[0].getsockname()[1]
    finally:
        await runner.cleanup()


async def a_flow_goes_on_as_soon_as_its_server_answers(world):
    answers = {"/ready": 503}
    await templates(world, "server", "client", run="")
    async with a_server(answers) as port:
        probe = {"httpGetList": [{"taskName": "w", "path": "/ready", "port": port}]}
        parts = [{"name": "server"}, {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}}]
        await make(world, JobFlow, "f", spec={"flows": parts})
        await until_one(world, Job, "f-server", lambda found: status_of(found).get("running") == 1, "a running server")
        address = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
        await world.client.patch(Pod, "f-server-w-0", address, namespace=world.namespace, subresource="status")
        await until_flow(world, "Running")
        assert await get(world, Job, "f-client") is None
        answers["/ready"] = 200
        await until_one(world, Job, "f-client", lambda found: found is not None, "the client")


# ------------------------------------------------------------------------------------------------- cron jobs, garbage


async def a_cron_job_runs_again_and_again_and_keeps_what_it_should(world):
    spec = {"schedulerName": "volcano", "minAvailable": 1, "queue": "default", "tasks": [world.task("w", 1, run="0s")]}
    fixed = {"schedule": "@every 1s", "jobTemplate": {"spec": spec}, "successfulJobsHistoryLimit": 1}
    await make(world, CronJob, "often", spec=fixed)
    seen = set()

    async def three_have_run():
        seen.update(each["metadata"]["name"] for each in await world.all(Job))
        return len(seen) >= 3

    await world.until(three_have_run, "three runs", CronJob)
    await world.client.patch(CronJob, "often", {"spec": {"suspend": True}}, namespace=world.namespace)

    async def one_is_left():
        phases = [status_of(job).get("state", {}).get("phase") for job in await world.all(Job)]
        return phases == ["Completed"]

    await world.until(one_is_left, "one finished job", CronJob)
    cron_job = await until_one(
        world, CronJob, "often", lambda found: not status_of(found).get("active"), "no active job"
    )
    (job,) = await world.all(Job)
    when = job["metadata"]["annotations"][names.CRONJOB_SCHEDULED_TIMESTAMP]
    assert cron_job["status"]["lastScheduleTime"] == when
    assert "lastSuccessfulTime" in cron_job["status"]
    await world.client.delete(CronJob, "often", namespace=world.namespace)

    async def all_is_gone():
        return not await world.all(Job) and not await world.all(Pod)

    await world.until(all_is_gone, "nothing of the cron job")


async def a_finished_job_goes_when_its_time_is_up(world):
    await world.submit("brief", tasks=[world.task("w", 2, run="0s")], plugins={}, ttlSecondsAfterFinished=1)

    async def all_is_gone():
        left = [*(await world.all(Job)), *(await world.all(Pod)), *(await world.all(PodGroup))]
        return not left

    await world.until(all_is_gone, "nothing of the job")


# -------------------------------------------------------------------------------------------------------- hyper nodes

DISCOVERY = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      TYPE: [{nodeLabel: example.org/spine}, {nodeLabel: example.org/tor}, {nodeLabel: kubernetes.io/hostname}]
"""


async def hyper_nodes_follow_the_labels_of_nodes_and_count_them(world):
    mine = [each for each in await world.client.list_json(by_struct(Node)) if _is_mine(world, each)]
    first, second = sorted(each["metadata"]["name"] for each in mine)
    for number, name in enumerate((first, second)):
        labels = {"example.org/tor": f"{world.namespace}-t{number}", "example.org/spine": f"{world.namespace}-s"}
        await world.client.patch(Node, name, {"metadata": {"labels": labels}})
    pattern = {"type": "Node", "selector": {"regexMatch": {"pattern": f"^{world.namespace}-"}}}
    by_hand = f"{world.namespace}-by-hand"
    await make(world, HyperNode, by_hand, spec={"tier": 5, "members": [pattern]})
    await until_one(world, HyperNode, by_hand, lambda found: status_of(found).get("nodeCount") == 2, "a count of two")
    with contextlib.suppress(errors.AlreadyExists):
        await world.client.create(Namespace, {"metadata": {"name": "volcano-system"}})
    text = DISCOVERY.replace("TYPE", world.namespace[:20])
    config = {"metadata": {"name": "volcano-controller-configmap"}, "data": {"volcano-controller.conf": text}}
    await world.client.create(ConfigMap, config, namespace="volcano-system")

    async def discovered():
        found = {}
        for each in await world.client.list_json(by_struct(HyperNode)):
            value = each["metadata"].get("labels", {}).get(each["spec"].get("tierName", ""), "")
            if value.startswith(world.namespace):
                found[value] = (each["spec"]["tier"], len(each["spec"]["members"]), status_of(each).get("nodeCount"))
        wanted = {
            f"{world.namespace}-t0": (1, 1, 1),
            f"{world.namespace}-t1": (1, 1, 1),
            f"{world.namespace}-s": (2, 2, 2),
        }
        return found == wanted

    await world.until(discovered, "three hyper nodes", HyperNode)
    await world.client.delete(ConfigMap, "volcano-controller-configmap", namespace="volcano-system")
    for each in await world.client.list_json(by_struct(HyperNode)):
        await world.client.delete(HyperNode, each["metadata"]["name"])


def _is_mine(world, node):
    return node["metadata"].get("labels", {}).get("test") == world.namespace


BODIES = [
    a_bare_pod_gets_its_group_and_runs_alone,
    pods_of_a_workload_that_asks_for_a_gang_start_together_or_not_at_all,
    a_queue_closes_with_its_parent_when_its_last_gang_is_gone_and_opens_with_it,
    a_flow_of_four_jobs_runs_in_order,
    a_flow_goes_on_as_soon_as_its_server_answers,
    a_cron_job_runs_again_and_again_and_keeps_what_it_should,
    a_finished_job_goes_when_its_time_is_up,
    hyper_nodes_follow_the_labels_of_nodes_and_count_them,
    groups_are_in_the_queue_that_their_namespace_names,
]
