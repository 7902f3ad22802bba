"""Whatever happens to a Job and whenever its controller dies: in the end everything is as its status says, and nothing is left over."""

import dataclasses

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.controllers.job.theatre import Theatre

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.core import ConfigMap, Service
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.kube import errors

MAX_RETRY = 3
OVER = {"Completed", "Failed", "Terminated", "Aborted"}
PODS = st.sampled_from(["train-master-0", "train-worker-0", "train-worker-1"])
EVENTS = st.sampled_from(["PodEvicted", "PodFailed", "TaskCompleted", "*"])
MADE = ((Service, "train"), (ConfigMap, "train-svc"))
RESTARTS = st.sampled_from(["RestartJob", "RestartTask", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"])


@dataclasses.dataclass(frozen=True)
class Evicts:
    pod: str

    async def happen(self, stage):
        await stage.remove(Pod, self.pod)


@dataclasses.dataclass(frozen=True)
class Ends:
    pod: str
    code: int

    async def happen(self, stage):
        await stage.end(self.pod, code=self.code)


@dataclasses.dataclass(frozen=True)
class Commands:
    action: str

    async def happen(self, stage):
        await stage.command(self.action)


@dataclasses.dataclass(frozen=True)
class Scales:
    workers: int

    async def happen(self, stage):
        tasks = (await stage.job())["spec"]["tasks"]
        tasks[1]["replicas"] = self.workers
        await stage.patch(Job, "train", {"spec": {"tasks": tasks}})


@dataclasses.dataclass(frozen=True)
class Vanishes:
    """Somebody deletes what a plugin made."""

    struct: type
    name: str

    async def happen(self, stage):
        await stage.remove(self.struct, self.name)


HAPPENINGS = st.one_of(
    st.builds(Evicts, PODS),
    st.builds(Ends, PODS, st.sampled_from([0, 1, 137])),
    st.builds(Commands, st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"])),
    st.builds(Scales, st.integers(0, 3)),
    st.sampled_from([Vanishes(*each) for each in MADE]),
)
PAUSES = st.sampled_from([0.0, 0.02, 1.5, 40.0])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policies=st.dictionaries(EVENTS, RESTARTS, max_size=2),
    story=st.lists(st.tuples(HAPPENINGS, PAUSES), max_size=5),
    death=st.one_of(st.none(), st.integers(1, 30)),
)
def test_in_the_end_everything_is_as_the_status_says(policies, story, death):
    stage = Theatre()
    stage.crash_before = death

    async def body(stage):
        wanted = [{"event": event, "action": action} for event, action in policies.items()]
        await stage.submit(
            ("master", 1), ("worker", 2), minAvailable=1, maxRetry=MAX_RETRY, policies=wanted, plugins={"svc": []}
        )
        await stage.settle(5.0)
        for happening, pause in story:
            try:
                await happening.happen(stage)
            except errors.StatusError:
                continue  # there was no such pod, or no change
            await stage.settle(pause)
        await stage.settle()
        await check(stage)
        written = stage.written
        await stage.settle()
        assert stage.written == written, "at rest, a controller writes nothing"

    stage.run(body)


async def check(stage):
    job = await stage.job()
    status, spec = job["status"], job["spec"]
    phase = status["state"]["phase"]
    pods = await stage.all(Pod)
    sizes = {task["name"]: task["replicas"] for task in spec["tasks"]}
    assert phase in OVER | {"Running", "Pending"}
    assert status.get("retryCount", 0) <= MAX_RETRY
    assert await stage.all(Command) == []
    unfinished = [pod for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
    if phase in OVER:
        assert unfinished == []
        assert [await stage.get(struct, name) for struct, name in MADE] == [None, None]
        assert await stage.all(PodGroup) == []
        assert not [key for key in status.get("controlledResources", {}) if key.startswith("plugin-")]
        return
    assert len(await stage.all(PodGroup)) == 1
    assert None not in [await stage.get(struct, name) for struct, name in MADE]
    assert sorted(pod["metadata"]["name"] for pod in pods) == sorted(
        f"train-{task}-{index}" for task, replicas in sizes.items() for index in range(replicas)
    )
    counted = {
        word: sum(pod["status"]["phase"].lower() == word for pod in pods)
        for word in ("running", "succeeded", "failed", "pending")
    }
    assert {word: status.get(word, 0) for word in counted} == counted
    for pod in unfinished:
        assert pod["metadata"]["annotations"][names.JOB_VERSION] == str(status.get("version", 0))
