"""How objects become rows, in whatever order they are seen."""

import itertools
import json

import msgspec
import pytest

from pumice.api import decoding, disruptions, names
from pumice.api.batch import Job
from pumice.api.core import Node
from pumice.api.meta import ObjectMeta
from pumice.api.native import NativePodGroup
from pumice.api.pods import Pod, PodSchedulingGroup
from pumice.api.scheduling import PodGroup, Queue
from pumice.record.observer import News, Observer
from pumice.record.rows import Attempt, Capacity, Eviction, Gang, Run

T0 = 1_793_491_200  # 2026-11-01T00:00:00Z


def at(seconds):
    minutes, rest = divmod(seconds, 60)
    return f"2026-11-01T00:{minutes:02}:{rest:02}Z"


def decoded(kind, value):
    return decoding.decode(kind, json.dumps(value).encode())


def a_job(*, phase="Running", since=60, version=0, rv=10, annotations=None, **spec):
    container = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "500m", "memory": "1Gi"}},
    }
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    metadata = {
        "name": "train",
        "namespace": "team",
        "uid": "job-1",
        "resourceVersion": str(rv),
        "creationTimestamp": at(0),
    }
    state = {"phase": phase, "lastTransitionTime": at(since)}
    return decoded(
        Job,
        {
            "metadata": metadata | {"annotations": annotations or {}},
            "spec": {"queue": "vision", "minAvailable": 2, "tasks": [task], **spec},
            "status": {"state": state, "version": version},
        },
    )


def a_pod(
    index=0,
    *,
    phase="Running",
    version=0,
    rv=20,
    bound=10,
    started=12,
    finished=None,
    code=0,
    evicted=None,
    owner="Job",
    **more,
):
    uid = f"pod-{version}-{index}"
    state = {"running": {"startedAt": at(started)}}
    if finished is not None:
        state = {"terminated": {"startedAt": at(started), "finishedAt": at(finished), "exitCode": code}}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]
    if evicted is not None:
        when, reason, message = evicted
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": at(when),
            }
        )
    reference = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "job-1",
        "controller": True,
    }
    annotations = {names.JOB_VERSION: str(version), names.TASK_SPEC: "w", names.GROUP_NAME: "train-job-1", **more}
    resources = {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    return decoded(
        Pod,
        {
            "metadata": {
                "name": f"train-w-{index}", "namespace": "team", "uid": uid, "resourceVersion": str(rv), "creationTimestamp": at(5),
                "annotations": annotations, "ownerReferences": [reference] if owner == "Job" else [],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": resources}]},
            "status": {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "c", "state": state}]},
        },
    )  # fmt: skip


def a_group(*, phase="Running", rv=15, uid="group-1", name="solo"):
    metadata = {"name": name, "namespace": "team", "uid": uid, "resourceVersion": str(rv), "creationTimestamp": at(0)}
    return decoded(
        PodGroup, {"metadata": metadata, "spec": {"minMember": 1, "queue": "vision"}, "status": {"phase": phase}}
    )


def folded(observer, *objects, now=T0 + 100, gone=()):
    news = [News(each) for each in objects] + [News(each, gone_at=now) for each in gone]
    return observer.fold(news, now)


def only(rows, kind):
    return [row for row in rows if isinstance(row, kind)]


def test_a_job_and_its_pods_are_a_gang_an_attempt_and_runs():
    rows = folded(Observer(), a_job(annotations={names.SUBMITTED_BY: "ann"}), a_pod(0), a_pod(1, bound=11))
    [gang], [attempt], runs = only(rows, Gang), only(rows, Attempt), only(rows, Run)
    assert (gang.uid, gang.kind, gang.namespace, gang.name, gang.user_name, gang.queue) == (
        "job-1",
        "Job",
        "team",
        "train",
        "ann",
        "vision",
    )
    assert (gang.submitted, gang.admitted, gang.started, gang.ended, gang.state) == (
        T0,
        T0 + 5,
        T0 + 10,
        None,
        "Running",
    )
    assert json.loads(gang.shapes) == [
        {"task": "w", "pods": 2, "resources": {"cpu": 0.5, "memory": 1.0, "nvidia.com/gpu": 2.0}}
    ]
    assert (attempt.gang, attempt.number, attempt.pods, attempt.started, attempt.ended) == (
        "job-1",
        0,
        2,
        T0 + 12,
        None,
    )
    assert [(run.uid, run.bound, run.started, run.ended) for run in runs] == [
        ("pod-0-0", T0 + 10, T0 + 12, None),
        ("pod-0-1", T0 + 11, T0 + 12, None),
    ]
    assert json.loads(runs[0].resources) == {"cpu": 0.5, "memory": 1.0, "nvidia.com/gpu": 2.0}


def test_news_that_changes_no_row_is_no_row():
    observer = Observer()
    assert folded(observer, a_job(), a_pod())
    assert folded(observer, a_job(rv=90), a_pod(rv=91)) == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_of_news_does_not_matter(order):
    news = [
        a_job(phase="Completed", since=50),
        a_pod(0, phase="Succeeded", finished=40),
        a_pod(1, phase="Succeeded", finished=45),
    ]
    observer, found = Observer(), {}
    for place in order:
        found |= {(row.TABLE, row.key): row for row in folded(observer, news[place])}
    gang, attempt = found["gangs", ("job-1",)], found["attempts", ("job-1", 0)]
    assert (gang.state, gang.started, gang.ended, gang.seen) == ("Completed", T0 + 10, T0 + 50, 20)
    assert (attempt.state, attempt.pods, attempt.ended) == ("Completed", 2, T0 + 45)


def test_a_claimant_of_another_namespace_is_found_by_the_uid_that_the_pod_has():
    gets = disruptions.Party(queue="prod", uid="group-of-big")
    notes = {names.EVICTION: msgspec.json.encode(disruptions.Story("reclaim", claimant=gets)).decode()}
    victim = a_pod(0, evicted=(40, "PreemptionByScheduler", "reclaim"), **notes)
    observer = Observer()
    big = PodGroup(metadata=ObjectMeta(namespace="other", name="big", uid="group-of-big"))
    folded(observer, a_job(), big, victim)
    [eviction] = only(folded(observer, gone=[victim], now=T0 + 42), Eviction)
    assert eviction.claimant == "other/big"


def test_an_eviction_says_for_whom_by_which_rule_and_what_it_cost():
    gets = disruptions.Party(gang="other/big")
    story = disruptions.Story("preempt", why="tier 1 of gang: ready at 3", claimant=gets)
    notes = {names.EVICTION: msgspec.json.encode(story).decode(), names.CHECKPOINTED_AT: at(30)}
    victim = a_pod(0, evicted=(40, "PreemptionByScheduler", story.text), **notes)
    observer = Observer()
    assert only(folded(observer, a_job(), victim), Eviction) == [], "it still runs"
    rows = folded(observer, gone=[victim], now=T0 + 42)
    [eviction], [run] = only(rows, Eviction), only(rows, Run)
    assert (eviction.gang, eviction.pod, eviction.at) == ("job-1", "train-w-0", T0 + 40)
    assert (eviction.rule, eviction.claimant, eviction.why) == ("preempt", "other/big", "tier 1 of gang: ready at 3")
    assert (eviction.lost_s, run.state, run.ended) == (12, "Evicted", T0 + 42)


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (a_pod(evicted=(40, "GangReleased", "never whole")), "Deleted"),
        (a_pod(), "Deleted"),
        (a_pod(phase="Failed", finished=41, code=1), "Failed"),
        (a_pod(phase="Succeeded", finished=41), "Succeeded"),
        (a_pod(phase="Succeeded", finished=39, evicted=(40, "EvictionByEvictionAPI", "drained")), "Succeeded"),
        (a_pod(phase="Failed", finished=41, code=137, evicted=(40, "EvictionByEvictionAPI", "drained")), "Evicted"),
        (a_pod(evicted=(40, "DeletionByTaintManager", "")), "Evicted"),
    ],
)
def test_how_a_pod_ended(pod, state):
    rows = folded(Observer(), a_job(), gone=[pod], now=T0 + 44)
    [run] = only(rows, Run)
    assert run.state == state
    assert len(only(rows, Eviction)) == (state == "Evicted")


def test_a_restart_of_the_whole_gang_is_another_attempt():
    observer = Observer()
    first = a_pod(0, version=0, evicted=(40, "PreemptionByScheduler", "reclaim"))
    folded(observer, a_job(), first)
    rows = folded(observer, a_job(phase="Restarting", version=1, rv=30), gone=[first], now=T0 + 42)
    assert [(row.number, row.state) for row in only(rows, Attempt)] == [(0, "Evicted")]
    again = a_pod(0, version=1, bound=60, started=61, rv=40)
    rows = folded(observer, a_job(version=1, rv=35), again)
    assert [(row.number, row.state, row.started) for row in only(rows, Attempt)] == [(1, "Running", T0 + 61)]
    rows = folded(
        observer,
        a_job(phase="Completed", since=90, version=1, rv=50),
        a_pod(0, version=1, bound=60, started=61, rv=49, phase="Succeeded", finished=88),
    )
    [gang] = only(rows, Gang)
    assert (gang.started, gang.ended, gang.state) == (T0 + 10, T0 + 90, "Completed")
    assert [(row.number, row.state) for row in only(rows, Attempt)] == [(1, "Completed")]


def test_a_job_that_is_deleted_ends_then_and_one_that_had_ended_stays_as_it_was():
    observer = Observer()
    folded(observer, a_job(), a_pod())
    [gang] = only(folded(observer, gone=[a_job(rv=30), a_pod(rv=31)], now=T0 + 70), Gang)
    assert (gang.state, gang.ended) == ("Deleted", T0 + 70)
    observer = Observer()
    done = a_job(phase="Failed", since=50)
    folded(observer, done)
    assert only(folded(observer, gone=[done], now=T0 + 70), Gang) == []
    assert observer.remembered() == 0


def test_a_group_without_a_job_is_a_gang_of_its_own():
    observer = Observer()
    pod = a_pod(0, owner="", **{names.GROUP_NAME: "solo"})
    assert folded(observer, pod) == [], "its group has not been seen"
    [gang] = only(folded(observer, a_group(), now=T0 + 30), Gang)
    assert (gang.uid, gang.kind, gang.user_name, gang.admitted, gang.started, gang.state) == (
        "group-1", "PodGroup", "team", T0 + 30, T0 + 10, "Running",
    )  # fmt: skip
    done = a_pod(0, owner="", phase="Failed", finished=80, code=1, **{names.GROUP_NAME: "solo"})
    [gang] = only(folded(observer, done, a_group(phase="Completed", rv=40), now=T0 + 90), Gang)
    assert (gang.state, gang.ended) == ("Failed", T0 + 80)


def test_a_group_that_goes_before_its_pods_is_told_when_they_have_gone():
    observer = Observer()
    pod = a_pod(0, owner="", evicted=(40, "PreemptionByScheduler", "preempt"), **{names.GROUP_NAME: "solo"})
    folded(observer, a_group(), pod)
    folded(observer, gone=[a_group(rv=50)], now=T0 + 41)
    [gang] = only(folded(observer, gone=[pod], now=T0 + 43), Gang)
    assert (gang.state, gang.ended) == ("Evicted", T0 + 41)
    assert observer.remembered() == 0


def test_what_is_known_of_a_complete_group_without_pods_gives_way_to_what_the_record_has():
    [gang] = only(folded(Observer(), a_group(phase="Completed")), Gang)
    assert gang.seen == 0


def a_native_group(*, rv=15, queue="vision", minimum=1):
    metadata = {
        "name": "solo", "namespace": "team", "uid": "native-1", "resourceVersion": str(rv), "creationTimestamp": at(0),
        "annotations": {names.QUEUE_NAME: queue} if queue else {},
    }  # fmt: skip
    return decoded(
        NativePodGroup,
        {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}},
    )


def a_native_pod(index=0, **more):
    pod = a_pod(index, owner="", **more, **{names.GROUP_NAME: ""})
    spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="solo"))
    return msgspec.structs.replace(pod, spec=spec)


def test_kubernetes_own_group_is_a_gang_that_ends_with_its_pods():
    observer = Observer()
    assert folded(observer, a_native_pod(), a_group(uid="volcano-1")) != [], (
        "a PodGroup of the same name is another one"
    )
    [gang] = only(folded(observer, a_native_group(minimum=2)), Gang)
    assert (gang.uid, gang.kind, gang.queue, gang.minimum, gang.admitted, gang.started, gang.state) == (
        "native-1", "PodGroup.scheduling.k8s.io", "vision", 2, T0, T0 + 10, "Running",
    )  # fmt: skip
    done = [a_native_pod(index, phase="Succeeded", finished=70 + index, rv=30) for index in (0, 1)]
    [gang] = only(folded(observer, done[0]), Gang) or [gang]
    assert gang.state == "Running", "one more is to come"
    rows = folded(observer, done[1])
    [gang], [attempt] = only(rows, Gang), only(rows, Attempt)
    assert (gang.state, gang.ended, attempt.state) == ("Completed", T0 + 71, "Completed")
    [gang] = only(folded(observer, a_native_pod(2, rv=40, bound=80)), Gang)
    assert (gang.state, gang.ended) == ("Running", None), "its owner makes another pod"


def test_kubernetes_own_group_that_names_no_queue_is_of_the_default_one_and_its_end_tells_how_its_pods_did():
    observer = Observer()
    pod = a_native_pod(phase="Failed", finished=70, code=1)
    [gang] = only(folded(observer, a_native_group(queue="", minimum=2), pod), Gang)
    assert (gang.queue, gang.state) == ("default", "Running")
    [gang] = only(folded(observer, gone=[a_native_group(rv=50, queue="", minimum=2), pod], now=T0 + 90), Gang)
    assert (gang.state, gang.ended) == ("Failed", T0 + 90)
    assert observer.remembered() == 0


def test_what_is_known_of_kubernetes_own_group_without_pods_gives_way_to_what_the_record_has():
    [gang] = only(folded(Observer(), a_native_group()), Gang)
    assert (gang.state, gang.seen) == ("Pending", 0)


def test_a_team_is_the_queue_below_root():
    parents = [("root", ""), ("research", "root"), ("vision", "research"), ("lost", "ring"), ("ring", "lost")]
    queues = [
        decoded(Queue, {"metadata": {"name": name, "uid": name}, "spec": {"parent": parent}})
        for name, parent in parents
    ]
    [gang] = only(folded(Observer(), *queues, a_job()), Gang)
    assert gang.team == "research"
    [gang] = only(folded(Observer(), *queues, a_job(queue="lost")), Gang)
    assert gang.team in {"lost", "ring"}, "a ring ends too"


def test_the_label_counts_only_where_it_is_trusted():
    metadata = {"name": "g", "namespace": "team", "uid": "u", "labels": {names.USER: "bob"}, "creationTimestamp": at(0)}
    group = decoded(PodGroup, {"metadata": metadata, "spec": {}})
    assert [only(folded(Observer(trusts_label=trusts), group), Gang)[0].user_name for trusts in (False, True)] == [
        "team",
        "bob",
    ]


def test_capacity_is_told_when_it_changes():
    def a_node(name, *, ready="True"):
        status = {
            "allocatable": {"cpu": "8", "nvidia.com/gpu": 4, "pods": 110, "memory": "2Gi"},
            "conditions": [{"type": "Ready", "status": ready}],
        }
        return decoded(Node, {"metadata": {"name": name, "uid": name}, "status": status})

    observer = Observer()
    rows = folded(observer, a_node("n1"), a_node("n2"), now=T0)
    assert rows == [Capacity(T0, "cpu", 16.0), Capacity(T0, "memory", 4.0), Capacity(T0, "nvidia.com/gpu", 8.0)]
    assert folded(observer, a_node("n2", ready="Unknown"), now=T0 + 30) == [], "looked at once a minute"
    assert folded(observer, now=T0 + 60)[0] == Capacity(T0 + 60, "cpu", 8.0)
    gone = folded(observer, gone=[a_node("n1"), a_node("n2")], now=T0 + 120)
    assert [(row.resource, row.amount) for row in gone] == [("cpu", 0.0), ("memory", 0.0), ("nvidia.com/gpu", 0.0)]


def test_memory_is_for_what_lives():
    observer = Observer()
    for version in range(50):
        pods = [a_pod(index, version=version, rv=100 + version) for index in range(4)]
        folded(observer, a_job(version=version, rv=100 + version), *pods)
        folded(observer, gone=pods)
    assert observer.remembered() <= 1 + 4
    folded(observer, gone=[a_job(rv=900)])
    assert observer.remembered() == 0
