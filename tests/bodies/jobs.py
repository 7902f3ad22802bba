"""What becomes of a Job on every API server: the same bodies run on the embedded server and on the real one."""

import contextlib
import json

from tests.bodies.job_world import WORKERS, JobWorld, job_world, phases_of

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.core import ConfigMap, Node, Secret, Service
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.job.plugins.svc import NETWORK_POLICY
from pumice.kube import errors
from pumice.kube.requests import PatchType

__all__ = ["BODIES", "JobWorld", "job_world"]

PLUGIN_OBJECTS = (
    (Service, "train"),
    (ConfigMap, "train-svc"),
    (Secret, "train-ssh"),
    (NETWORK_POLICY, "train"),
)


async def an_eight_worker_pytorch_job_goes_from_pending_over_running_to_completed(world):
    await world.submit()
    job = await world.phase("Running", running=WORKERS)
    group = await world.group()
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert group["spec"]["minMember"] == WORKERS
    assert group["spec"]["minTaskMember"] == {"master": 1, "worker": WORKERS - 1}
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == str(WORKERS)  # though the templates set only limits
    pods = await world.pods()
    assert len(pods) == WORKERS
    env = {each["name"]: each.get("value") for each in pods["train-worker-2"]["spec"]["containers"][0]["env"]}
    assert (env["MASTER_ADDR"], env["WORLD_SIZE"], env["RANK"]) == ("train-master-0.train", str(WORKERS), "3")
    assert pods["train-worker-2"]["spec"]["hostname"] == "train-worker-2"
    hosts = (await world.client.get(ConfigMap, "train-svc", namespace=world.namespace)).json()
    assert hosts["data"]["VC_WORKER_NUM"] == str(WORKERS - 1)
    await world.end(*pods)
    job = await world.phase("Completed", succeeded=WORKERS)
    assert phases_of(job) == ["Pending", "Running", "Completed"]
    assert job["status"]["taskStatusCount"]["worker"]["phase"] == {"Succeeded": WORKERS - 1}

    async def all_is_tidy():
        left = [*(await world.all(PodGroup)), *(await world.all(Service))]
        return not left and len(await world.pods()) == WORKERS

    await world.until(all_is_tidy, "the end of everything but finished pods")


async def a_gang_costs_its_controller_one_write_a_pod_and_five_for_itself(world):
    """Of the budget of 2 a pod and 8 a gang; the scheduler has the rest: one bind a pod, and the phases of the group."""
    await world.submit(plugins={})
    await world.phase("Running", running=WORKERS)
    await world.end(*await world.pods())
    await world.phase("Completed")

    async def the_group_is_gone():
        return not await world.all(PodGroup)

    await world.until(the_group_is_gone, "the end of the group")
    ours = {"create PodGroup": 1, "create Pod": WORKERS, "patch Job": 3, "delete PodGroup": 1}
    assert {
        what: count for what, count in world.controllers.executor.writes.items() if not what.endswith("Queue")
    } == ours
    assert world.counted.writes["POST binding"] == WORKERS


async def one_evicted_pod_restarts_the_whole_gang_under_restart_job(world):
    await world.submit(policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await world.phase("Running", running=WORKERS)
    before = await world.uids()
    group = await world.group()
    await world.evict("train-worker-3")
    job = await world.phase("Running", retryCount=1, running=WORKERS)
    after = await world.uids()
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert (await world.group())["metadata"]["uid"] != group["metadata"]["uid"]
    assert job["status"]["version"] == 1
    progress = json.loads(job["status"]["controlledResources"][names.PROGRESS])
    (restart,) = progress["restarts"]
    assert restart["action"] == "RestartJob"
    assert "pod train-worker-3 was evicted" in restart["why"]

    async def told():
        events = await world.all(CoreEvent)
        return [each for each in events if each["reason"] == "PodEvicted" and each["involvedObject"]["name"] == "train"]

    found = await world.until(told, "an event on the job", CoreEvent)
    assert "RestartJob: pod train-worker-3 was evicted" in found[0]["message"]
    assert "run time" in found[0]["message"]


async def one_evicted_pod_comes_back_alone_under_restart_pod(world):
    await world.submit(policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    await world.phase("Running", running=WORKERS)
    before = await world.uids()
    group = await world.group()
    await world.evict("train-worker-3")
    await world.phase("Running", retryCount=1, running=WORKERS)
    after = await world.uids()
    assert [name for name in before if after[name] != before[name]] == ["train-worker-3"]
    assert (await world.group())["metadata"]["uid"] == group["metadata"]["uid"]


async def a_job_is_suspended_and_resumed_by_commands_and_keeps_its_retries(world):
    await world.submit(maxRetry=1)
    await world.phase("Running", running=WORKERS)
    for _ in range(2):
        await world.command("AbortJob")
        await world.phase("Aborted")
        assert await world.pods() == {}
        await world.command("ResumeJob")
        job = await world.phase("Running", running=WORKERS)
        assert job["status"].get("retryCount", 0) == 0

    async def commands_are_gone():
        return not await world.all(Command)

    await world.until(commands_are_gone, "the end of the commands")


async def a_job_is_scaled_up_and_down_without_touching_the_rest(world):
    policies = [{"event": "*", "action": "RestartJob"}]
    tasks = [world.task("worker", 2, minAvailable=2)]
    await world.submit(tasks=tasks, plugins={"svc": []}, policies=policies)
    await world.phase("Running", running=2)
    before = await world.uids()
    await world.scale(worker=4)
    await world.phase("Running", running=4)
    await world.scale(worker=2)

    async def two_are_left():
        return len(await world.pods()) == 2

    await world.until(two_are_left, "two pods")
    job = await world.phase("Running", running=2)
    assert await world.uids() == before
    assert job["status"].get("retryCount", 0) == 0


async def a_release_by_the_scheduler_costs_nothing(world):
    await world.submit(
        policies=[{"event": "*", "action": "RestartJob"}], workers=2, gpus=5
    )  # two nodes of 8: three find no room

    async def all_are_there():
        return len(await world.pods()) == 3

    await world.until(all_are_there, "three pods")
    before = await world.uids()
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "GangReleased", "message": "never whole"}
    body = {"status": {"conditions": [condition]}}
    patch = world.client.patch
    await patch(Pod, "train-worker-0", body, namespace=world.namespace, subresource="status", how=PatchType.STRATEGIC)
    await world.client.delete(Pod, "train-worker-0", namespace=world.namespace)

    async def it_is_back():
        uids = await world.uids()
        return uids.get("train-worker-0", before["train-worker-0"]) != before["train-worker-0"]

    await world.until(it_is_back, "a new pod")
    job = await world.job()
    assert (job["status"].get("retryCount", 0), job["status"]["state"]["phase"]) == (0, "Pending")
    assert (await world.uids())["train-master-0"] == before["train-master-0"]


async def a_deleted_job_takes_everything_with_it(world):
    await world.submit(plugins={"mpi": []})
    await world.phase("Running", running=WORKERS)
    assert len(await world.all(Secret)) >= 1
    await world.client.delete(Job, "train", namespace=world.namespace)

    async def nothing_is_left():
        made = [
            *(await world.all(Pod)),
            *(await world.all(PodGroup)),
            *(await world.all(Service)),
            *(await world.all(Secret)),
        ]
        return not made

    await world.until(nothing_is_left, "an empty namespace")


async def a_job_of_the_same_name_follows_one_that_was_deleted(world):
    first = await world.submit()
    await world.phase("Running", running=WORKERS)
    await world.client.delete(Job, "train", namespace=world.namespace)
    second = await world.submit()
    await world.phase("Running", running=WORKERS)
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in (await world.pods()).values()}
    assert owners == {second["metadata"]["uid"]} != {first["metadata"]["uid"]}


async def the_ssh_plugins_keys_survive_a_restart(world):
    await world.submit(plugins={"ssh": []}, policies=[{"event": "PodEvicted", "action": "RestartPod"}], workers=1)
    await world.phase("Running", running=2)
    secret = (await world.client.get(Secret, "train-ssh", namespace=world.namespace)).json()
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    await world.evict("train-worker-0")
    await world.phase("Running", retryCount=1, running=2)
    again = (await world.client.get(Secret, "train-ssh", namespace=world.namespace)).json()
    assert again["metadata"]["uid"] == secret["metadata"]["uid"]


async def what_somebody_deletes_of_a_jobs_plugins_is_made_again(world):
    await world.submit(plugins={"ssh": [], "svc": []}, workers=1)
    await world.phase("Running", running=2)
    before = await world.uids()
    for kind, name in PLUGIN_OBJECTS:
        await world.client.delete(kind, name, namespace=world.namespace)

    async def all_are_back():
        with contextlib.suppress(errors.NotFound):
            return [await world.client.get(kind, name, namespace=world.namespace) for kind, name in PLUGIN_OBJECTS]

    async def all_were_told():
        events = [each["message"] for each in await world.all(CoreEvent) if each["reason"] == "PluginObjectMissing"]
        return len(events) == len(PLUGIN_OBJECTS) and events

    await world.until(all_are_back, "the plugins' objects", ConfigMap, Service, Secret)
    told = await world.until(all_were_told, "an event for each", CoreEvent)
    assert any("Secret train-ssh was deleted" in message and "new keys" in message for message in told)
    assert await world.uids() == before


async def a_task_starts_when_the_one_it_depends_on_is_ready_and_enough_successes_end_the_job(world):
    seen = {}  # worker -> the phase of its server when the worker first appeared

    def note(news):
        for change in news:
            pod = getattr(change, "object", None)
            if pod is not None and pod.metadata.namespace == world.namespace and "-worker-" in pod.metadata.name:
                server = world.informers.of(Pod).get(world.namespace, "train-server-0")
                seen.setdefault(pod.metadata.name, server.status.phase if server is not None else "")

    leave = world.informers.of(Pod).subscribe(note)
    tasks = [world.task("server", 1), world.task("worker", 3, minAvailable=0, dependsOn={"name": ["server"]})]
    await world.submit(tasks=tasks, plugins={}, minAvailable=1, minSuccess=2)
    await world.phase("Running", running=4)
    leave()
    assert seen == {f"train-worker-{index}": "Running" for index in range(3)}
    await world.end("train-worker-0", "train-worker-2")
    job = await world.phase("Completed", succeeded=2, terminating=0)
    assert phases_of(job)[-1] == "Completed"

    async def only_the_finished_are_left():
        return sorted(await world.pods()) == ["train-worker-0", "train-worker-2"]

    await world.until(only_the_finished_are_left, "two finished pods")


async def a_restart_goes_on_when_the_node_of_a_stuck_pod_is_removed(world):
    """The node has lost its power: its pods are told to go, and nobody is there to say that they have."""
    await world.submit(workers=3, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await world.phase("Running", running=4)
    pods = await world.pods()
    node = pods["train-worker-1"]["spec"]["nodeName"]
    stuck = {name for name, pod in pods.items() if pod["spec"]["nodeName"] == node}
    before = await world.uids()
    await world.client.patch(Node, node, {"metadata": {"annotations": {names.PRETEND_GONE: "true"}}})
    await world.client.patch(Node, node, {"spec": {"unschedulable": True}})
    await world.evict("train-worker-1")

    async def all_must_go():
        found = await world.pods()
        return all(name in found and "deletionTimestamp" in found[name]["metadata"] for name in stuck)

    await world.until(all_must_go, "pods that cannot end")
    await world.phase("Restarting", retryCount=1)
    assert stuck <= {name for name, uid in (await world.uids()).items() if uid == before[name]}
    await world.client.delete(Node, node)
    await world.phase("Running", retryCount=1, running=4)
    assert not set((await world.uids()).values()) & set(before.values())

    async def told():
        events = [each for each in await world.all(CoreEvent) if each["reason"] == "PodGivenUp"]
        return events if len(events) >= len(stuck) else None

    found = await world.until(told, "an event for each pod that was given up", CoreEvent)
    assert all(f"node {node} no longer exists" in each["message"] for each in found)
    assert {each["involvedObject"]["name"] for each in found} == {"train"}


async def a_job_whose_time_is_up_is_terminated_and_says_why(world):
    await world.submit(workers=1, annotations={names.TIME_LIMIT: "2s"})
    job = await world.phase("Terminated")
    assert job["status"]["state"]["reason"] == "TimeLimitExceeded"
    assert await world.pods() == {}
    writes = {what: count for what, count in world.controllers.executor.writes.items() if what.endswith("PodGroup")}
    assert writes["create PodGroup"] == writes["delete PodGroup"] == 1
    assert (
        writes["patch PodGroup"] <= 3
    )  # its start and its end, and once more where the scheduler wrote at the same time

    async def told():
        return "TimeLimitExceeded" in {each["reason"] for each in await world.all(CoreEvent)}

    await world.until(told, "an event", CoreEvent)


async def a_job_is_told_that_its_time_will_be_up(world):
    """A second after it has started, 59 minutes before its end."""
    times = {names.TIME_LIMIT: "1h", names.TIME_LIMIT_WARNING: "59m59s", names.TIME_LIMIT_SIGNAL: "SIGUSR1"}
    await world.submit(workers=1, annotations=times)
    await world.phase("Running", running=2)

    async def warned():
        held = [
            each["type"]
            for each in (await world.group()).get("status", {}).get("conditions", ())
            if each["status"] == "True"
        ]
        pods = (await world.pods()).values()
        return "TimeLimitWarning" in held and all(
            names.TIME_LIMIT_ENDS in pod["metadata"]["annotations"] for pod in pods
        )

    await world.until(warned, "a condition on the group, and word to its pods")
    await world.client.patch(
        Job, "train", {"metadata": {"annotations": {names.TIME_LIMIT: "4h"}}}, namespace=world.namespace
    )

    async def is_at_ease():
        conditions = (await world.group()).get("status", {}).get("conditions", ())
        return [each["status"] for each in conditions if each["type"] == "TimeLimitWarning"] == ["False"]

    await world.until(is_at_ease, "more time")


async def a_gang_of_nobody_whose_time_is_up_loses_its_pods(world):
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": {names.TIME_LIMIT: "2s"}},
        "spec": {"minMember": 2},
    }
    await world.client.create(PodGroup, group, namespace=world.namespace)
    spec = {**world.task("any", 1)["template"]["spec"], "schedulerName": "volcano"}
    for name in ("a", "b"):
        pod = {"metadata": {"name": name, "annotations": {names.GROUP_NAME: "g"}}, "spec": spec}
        await world.client.create(Pod, {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=world.namespace)

    async def all_is_over():
        found = (await world.client.get(PodGroup, "g", namespace=world.namespace)).json()
        held = [each["type"] for each in found.get("status", {}).get("conditions", ()) if each["status"] == "True"]
        return "TimeLimitExceeded" in held and not await world.pods()

    await world.until(all_is_over, "the end of its pods")
    await world.client.delete(PodGroup, "g", namespace=world.namespace)


BODIES = [
    an_eight_worker_pytorch_job_goes_from_pending_over_running_to_completed,
    a_gang_costs_its_controller_one_write_a_pod_and_five_for_itself,
    one_evicted_pod_restarts_the_whole_gang_under_restart_job,
    one_evicted_pod_comes_back_alone_under_restart_pod,
    a_job_is_suspended_and_resumed_by_commands_and_keeps_its_retries,
    a_job_is_scaled_up_and_down_without_touching_the_rest,
    a_release_by_the_scheduler_costs_nothing,
    a_deleted_job_takes_everything_with_it,
    a_job_of_the_same_name_follows_one_that_was_deleted,
    the_ssh_plugins_keys_survive_a_restart,
    a_task_starts_when_the_one_it_depends_on_is_ready_and_enough_successes_end_the_job,
    what_somebody_deletes_of_a_jobs_plugins_is_made_again,
    a_restart_goes_on_when_the_node_of_a_stuck_pod_is_removed,
    a_job_whose_time_is_up_is_terminated_and_says_why,
    a_job_is_told_that_its_time_will_be_up,
    a_gang_of_nobody_whose_time_is_up_loses_its_pods,
]
