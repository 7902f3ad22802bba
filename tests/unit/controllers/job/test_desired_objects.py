"""What a Job needs to exist: its PodGroup, its pods, its claims, each exactly as Volcano names it."""

import re

import pytest
from tests.unit.controllers.job.literals import (
    BORN,
    NOW,
    UID,
    a_group,
    a_job,
    a_pod,
    a_task,
    fitting_group,
    gang,
    told,
)

from pumice.api import decoding, names
from pumice.api.batch import Job
from pumice.api.scheduling import Queue
from pumice.api.validation.limits import JOB_REPLICAS_MAX, TASKS_MAX
from pumice.controllers.job.desired_objects import GROWTH_SHARE, PODS_OF_ONE_PLAN, PODS_OF_ONE_PLAN_MAX
from pumice.controllers.operations import Create, Patch

GROUP = f"PodGroup/train-{UID}"


def template(**container):
    return {"spec": {"containers": [{"name": "main", "image": "train", **container}]}}


def resources(**amounts):
    return template(resources=amounts)


def group_spec(job, **more):
    return told(job, group=None, **more).bodies[GROUP]["spec"]


def test_the_group_is_in_the_queue_of_the_job_or_of_its_namespace():
    assert group_spec(a_job(phase="Pending", queue="q"))["queue"] == "q"
    assert group_spec(a_job(phase="Pending", queue="default"), queue_name="research")["queue"] == "research"


# -------------------------------------------------------------------------------------------------------- first look


def test_a_new_job_is_pending_and_has_a_group_and_no_pods_after_one_look():
    found = told(a_job(phase=""), group=None, now=NOW - 3600 * 10**9)
    assert set(found.bodies) == {GROUP}
    assert found.phase == "Pending"
    assert found.created == []


def test_a_new_job_with_plugins_gets_their_objects_before_its_group_and_its_phase():
    job = a_job(phase="", plugins={"svc": [], "env": []})
    found = told(job, group=None, now=NOW - 3600 * 10**9)
    first, second = found.plan.stages
    assert [each.body["kind"] for each in first] == ["ConfigMap", "Service", "NetworkPolicy"]
    assert [type(each) for each in second] == [Create, Patch]
    assert found.phase == "Pending"
    controlled = found.job.status.controlled_resources
    assert {key: value for key, value in controlled.items() if key != names.PROGRESS} == {
        "plugin-svc": "svc",
        "plugin-env": "env",
    }


def test_a_job_that_still_has_no_phase_after_a_while_gets_it_before_anything_else():
    found = told(a_job(phase="", plugins={"svc": []}), group=None)
    assert (found.phase, found.bodies) == ("Pending", {})


def test_what_plugins_made_is_not_made_again():
    first = told(a_job(phase="Pending", plugins={"svc": []}), group="Pending").job
    assert told(first, group="Pending").bodies == {}


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_no_pod_is_made_before_the_group_is_admitted(phase):
    found = told(a_job(phase="Pending"), group=phase)
    assert found.created == []


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown"])
def test_pods_are_made_once_the_group_is_admitted(phase):
    assert told(a_job(phase="Pending"), group=phase).created == ["master-0", "worker-0", "worker-1", "worker-2"]


def test_a_group_that_is_as_it_should_be_is_left_alone():
    assert told(a_job(phase="Pending"), group="Pending").operations == []


def test_a_missing_queue_is_told_and_kills_nobody():
    found = told(a_job(phase="Pending", queue="gone"), *gang(), queue=None)
    assert found.phase == "Running"
    found = told(a_job(phase="Pending", queue="gone"), group=None, queue=None)
    assert GROUP in found.bodies
    (event,) = found.events
    assert event == ("QueueMissing", "queue 'gone' does not exist: the job waits for it; create it, or delete the job")


def test_a_queue_that_is_not_known_yet_is_given_a_moment():
    found = told(a_job(phase="Pending"), group="Pending", queue=None, now=NOW - 3599 * 10**9)
    assert found.events == []
    assert found.plan.again_at == NOW - 3595 * 10**9


def test_why_the_gang_waits_is_told_on_the_job():
    conditions = [
        {"type": "Scheduled", "status": "False", "lastTransitionTime": "2026-03-01T12:30:00Z"},
        {
            "type": "Unschedulable",
            "status": "True",
            "message": "2/4 tasks in gang unschedulable",
            "lastTransitionTime": BORN,
        },
    ]
    job = a_job(phase="Pending")
    found = told(job, group=fitting_group(job, "Pending", conditions=conditions))
    text = "PodGroup team:train unschedulable, reason: 2/4 tasks in gang unschedulable"
    assert found.events == [("PodGroupPending", text)]


# ----------------------------------------------------------------------------------------------------------- group


def test_the_group_carries_everything_of_its_job():
    job = a_job(
        phase="Pending",
        labels={"team": "vision"},
        annotations={"volcano.sh/sla-waiting-time": "1h"},
        priorityClassName="high",
        queue="research",
        networkTopology={"mode": "hard", "highestTierAllowed": 2, "highestTierName": "rack"},
    )
    body = told(job, group=None).bodies[GROUP]
    assert body["metadata"] == {
        "name": f"train-{UID}",
        "namespace": "team",
        "labels": {"team": "vision"},
        "annotations": {"volcano.sh/sla-waiting-time": "1h"},
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert body["spec"] == {
        "minMember": 4,
        "minTaskMember": {"master": 1, "worker": 3},
        "queue": "research",
        "priorityClassName": "high",
        "minResources": {"count/pods": "4", "pods": "4"},
        "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
    }
    assert body["status"] == {"phase": "Pending"}


def test_a_tier_may_be_given_by_name():
    spec = group_spec(a_job(phase="Pending", networkTopology={"mode": "soft", "highestTierName": "rack"}))
    assert spec["networkTopology"] == {"mode": "soft", "highestTierName": "rack"}


def test_partitions_become_sub_groups():
    partitions = {
        "totalPartitions": 4,
        "partitionSize": 2,
        "minPartitions": 3,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    task = a_task("worker", 8, partitionPolicy=partitions)
    del task["minAvailable"]
    job = a_job(task, phase="Pending", minAvailable=6)
    spec = group_spec(job)
    assert spec["minTaskMember"] == {"worker": 6}
    assert spec["subGroupPolicy"] == [
        {
            "name": "worker",
            "subGroupSize": 2,
            "minSubGroups": 3,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    ]
    assert told(job, group="Pending").operations == []


def test_minimum_resources_are_those_of_the_minimum_in_the_words_of_quotas():
    worker = a_task(
        "worker",
        4,
        template=resources(requests={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}, limits={"memory": "2Gi"}),
    )
    spec = group_spec(a_job(worker, phase="Pending"))
    assert spec["minResources"] == {
        "pods": "4",
        "count/pods": "4",
        "cpu": "2",
        "requests.cpu": "2",
        "memory": "4Gi",
        "requests.memory": "4Gi",
        "limits.memory": "8Gi",
        "nvidia.com/gpu": "4",
        "requests.nvidia.com/gpu": "4",
    }


def test_a_job_that_sets_only_limits_has_them_in_its_minimum():
    worker = a_task("worker", 2, template=resources(limits={"cpu": "4", "nvidia.com/gpu": "8"}))
    minimum = group_spec(a_job(worker, phase="Pending"))["minResources"]
    assert (minimum["nvidia.com/gpu"], minimum["requests.nvidia.com/gpu"]) == ("16", "16")
    assert (minimum["cpu"], minimum["requests.cpu"], minimum["limits.cpu"]) == ("8", "8", "8")


def test_the_minimum_takes_the_hungriest_moment_of_a_pod_and_its_overhead():
    spec = {
        "initContainers": [{"name": "warm", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
        "containers": [
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "b", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        ],
        "overhead": {"memory": "256Mi"},
    }
    minimum = group_spec(a_job(a_task("worker", 1, template={"spec": spec}), phase="Pending"))["minResources"]
    assert (minimum["cpu"], minimum["memory"]) == ("3", "2304Mi")


@pytest.mark.parametrize(
    ("minimum", "ps", "worker", "cpu"),
    [
        (3, {"replicas": 2, "minAvailable": 2}, {"replicas": 4, "minAvailable": 1}, "210"),  # all ps, one worker
        (
            5,
            {"replicas": 2, "minAvailable": 1},
            {"replicas": 4, "minAvailable": 2},
            "230",
        ),  # minimums first, then the ps
        (
            2,
            {"replicas": 2, "minAvailable": 2},
            {"replicas": 4, "minAvailable": 2},
            "200",
        ),  # less than the tasks ask for
    ],
)
def test_the_minimum_is_filled_by_the_most_important_tasks_first(minimum, ps, worker, cpu):
    low = {"name": "worker", "template": resources(requests={"cpu": "10"}), **worker}
    high = template(resources={"requests": {"cpu": "100"}})
    high["spec"]["priorityClassName"] = "urgent"
    job = a_job(low, {"name": "ps", "template": high, **ps}, phase="Pending", minAvailable=minimum)
    assert group_spec(job, priorities={"urgent": 1000})["minResources"]["cpu"] == cpu


def test_scaling_changes_what_may_change_in_the_group_and_nothing_else():
    job = a_job(
        a_task("worker", 4, template=resources(requests={"cpu": "1"})), phase="Running", priorityClassName="new"
    )
    before = fitting_group(
        a_job(a_task("worker", 3, template=resources(requests={"cpu": "1", "memory": "1Gi"})), queue="old"), "Running"
    )
    (patch,) = [each for each in told(job, group=before).operations if isinstance(each, Patch) and each.kind is not Job]
    assert (patch.uid, patch.version) == (before.metadata.uid, "5")
    assert patch.body == {
        "spec": {
            "minMember": 4,
            "minTaskMember": {"worker": 4},
            "priorityClassName": "new",
            "minResources": {
                "count/pods": "4",
                "pods": "4",
                "cpu": "4",
                "requests.cpu": "4",
                "memory": None,
                "requests.memory": None,
            },
        }
    }


def test_how_long_a_job_may_run_and_is_expected_to_stands_on_its_group():
    limit = {names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "2m"}
    job = a_job(phase="Pending", annotations=limit, runningEstimate="90m")
    (group,) = [each for each in told(job, group=None).operations if isinstance(each, Create)]
    assert group.body["metadata"]["annotations"] == {**limit, names.RUNNING_ESTIMATE: "90m"}
    said = a_job(phase="Pending", annotations={names.RUNNING_ESTIMATE: "1h"}, runningEstimate="90m")
    (group,) = [each for each in told(said, group=None).operations if isinstance(each, Create)]
    assert group.body["metadata"]["annotations"] == {names.RUNNING_ESTIMATE: "1h"}


def test_another_time_limit_reaches_the_group_of_a_job_that_runs():
    job = a_job(annotations={names.TIME_LIMIT: "4h"})
    before = {names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "2m", names.RUN: "{}"}
    found = told(job, *gang(), group=fitting_group(job, "Running", annotations=before))
    (patch,) = [each for each in found.operations if isinstance(each, Patch) and each.kind is not Job]
    assert patch.body == {"metadata": {"annotations": {names.TIME_LIMIT: "4h", names.TIME_LIMIT_WARNING: None}}}


def test_amounts_that_are_written_differently_are_the_same():
    job = a_job(a_task("worker", 2, template=resources(requests={"cpu": "500m"})), phase="Pending")
    fit = fitting_group(job, "Pending")
    minimum = {**fit.spec.min_resources, "cpu": "1000m"}
    group = a_group("Pending", minMember=2, minTaskMember={"worker": 2}, minResources=minimum)
    assert told(job, group=group).operations == []


# ------------------------------------------------------------------------------------------------------------- pods


def pod_of(job, name, **more):
    return told(job, group="Inqueue", **more).bodies[f"Pod/train-{name}"]


def test_a_pod_is_the_template_and_what_ties_it_to_its_job():
    written = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "hi"}, "finalizers": ["dropped"]},
        "spec": {"containers": [{"name": "main", "image": "train", "futureField": {"kept": True}}]},
    }
    job = a_job(
        a_task("worker", 2, template=written), phase="Pending", status={"version": 3, "retryCount": 2}, queue="research"
    )
    pod = pod_of(job, "worker-1")
    assert pod["metadata"] == {
        "name": "train-worker-1",
        "namespace": "team",
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "labels": {
            "app": "x",
            "volcano.sh/job-name": "train",
            "volcano.sh/job-namespace": "team",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "research",
        },
        "annotations": {
            "note": "hi",
            "volcano.sh/job-name": "train",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "research",
            "volcano.sh/job-version": "3",
            "volcano.sh/job-retry-count": "2",
            "volcano.sh/template-uid": "train-worker",
            "scheduling.k8s.io/group-name": f"train-{UID}",
        },
    }
    assert pod["spec"] == {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "image": "train", "futureField": {"kept": True}}],
    }


def test_what_the_template_says_of_scheduler_and_priority_wins():
    own = {"spec": {"schedulerName": "mine", "priorityClassName": "own", "containers": []}}
    tasks = [a_task("a", 1, template=own), a_task("b", 1)]
    job = a_job(*tasks, phase="Pending", priorityClassName="high")
    assert pod_of(job, "a-0")["spec"] == own["spec"]
    assert pod_of(job, "b-0")["spec"]["priorityClassName"] == "high"


def test_what_the_job_says_of_eviction_reaches_its_pods():
    annotations = {
        names.PREEMPTABLE: "true",
        names.COOLDOWN_TIME: "600s",
        names.REVOCABLE_ZONE: "*",
        names.TIME_LIMIT_SIGNAL: "SIGUSR1",
        names.JDB_MIN_AVAILABLE: "50%",
        names.JDB_MAX_UNAVAILABLE: "2",
    }
    job = a_job(phase="Pending", annotations=annotations, labels={names.PREEMPTABLE: "false"})
    metadata = pod_of(job, "master-0")["metadata"]
    assert {key: metadata["annotations"].get(key) for key in annotations} == {
        **annotations,
        names.JDB_MAX_UNAVAILABLE: None,
    }
    assert metadata["labels"][names.PREEMPTABLE] == "false"


def test_a_pod_knows_its_partition_and_its_numa_policy():
    task = a_task(
        "worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}, topologyPolicy="single-numa-node"
    )
    metadata = pod_of(a_job(task, phase="Pending"), "worker-3")["metadata"]
    assert metadata["labels"]["volcano.sh/partition-id"] == "1"
    assert metadata["annotations"]["volcano.sh/numa-topology-policy"] == "single-numa-node"


def test_scaling_up_makes_the_missing_indexes_only():
    found = told(a_job(a_task("worker", 5), minAvailable=3), *[a_pod("worker", index) for index in (0, 1, 3)])
    assert found.created == ["worker-2", "worker-4"]


def test_a_giant_job_is_made_in_parts():
    job = a_job(a_task("worker", PODS_OF_ONE_PLAN + 5), a_task("other", 3), phase="Pending")
    first = told(job, group="Inqueue").created
    assert len(first) == PODS_OF_ONE_PLAN
    made = [a_pod("worker", index, "Pending") for index in range(PODS_OF_ONE_PLAN)]
    rest = [f"worker-{PODS_OF_ONE_PLAN + index}" for index in range(5)]
    assert told(job, *made, group="Inqueue").created == [*rest, "other-0", "other-1", "other-2"]


def test_the_more_pods_a_job_has_the_more_are_made_at_a_time_up_to_a_bound():
    """A plan looks at all pods that exist: small parts of a large Job would be looked at too often."""
    job = a_job(a_task("worker", 30_000), phase="Pending")
    some = [a_pod("worker", index, "Pending") for index in range(800)]
    assert len(told(job, *some, group="Inqueue").created) == PODS_OF_ONE_PLAN + 800 // GROWTH_SHARE
    many = [a_pod("worker", index, "Pending") for index in range(16_000)]
    assert len(told(job, *many, group="Inqueue").created) == PODS_OF_ONE_PLAN_MAX


HUGE = 2_147_483_647


@pytest.mark.parametrize("plugin", ["env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"])
def test_a_job_that_came_past_admission_and_is_too_large_makes_nothing_and_says_why(plugin):
    names = {"tensorflow": ("chief", "worker"), "ray": ("head", "worker")}.get(plugin, ("master", "worker"))
    tasks = [a_task(name, HUGE, minAvailable=1) for name in names]
    found = told(a_job(*tasks, phase="Pending", plugins={plugin: []}), group="Inqueue")
    assert (found.created, found.bodies) == ([], {})
    assert found.events == [
        (
            "InvalidJob",
            f"its tasks have {2 * HUGE} replicas together, at most {JOB_REPLICAS_MAX} (JOB_REPLICAS_MAX): no pods are made; make several jobs of it",
        )
    ]


def test_a_job_of_too_many_tasks_makes_nothing_and_says_why():
    found = told(a_job(*[a_task(f"t{number}", 1) for number in range(TASKS_MAX + 1)], phase="Pending"), group="Inqueue")
    assert found.created == []
    assert found.events[0][1].startswith(f"it has {TASKS_MAX + 1} tasks, at most {TASKS_MAX} (TASKS_MAX)")


@pytest.mark.parametrize("action", ["RestartTask", "RestartPartition"])
def test_a_restart_of_a_task_that_is_too_large_looks_at_no_more_pods_than_a_job_may_have(action):
    policy = {"action": action, "event": "PodFailed"}
    partition = {"totalPartitions": 1, "partitionSize": HUGE}
    task = a_task("worker", HUGE, minAvailable=1, policies=[policy], partitionPolicy=partition)
    found = told(a_job(task), a_pod("worker", 0, "Failed"), a_pod("worker", 1))
    assert found.killed == {"worker-0", "worker-1"}


@pytest.mark.parametrize("key", ["volcano.sh/task-index", "volcano.sh/job-version", "volcano.sh/job-retry-count"])
def test_a_pod_with_a_number_of_5000_digits_does_not_stop_its_job(key):
    pod = a_pod("worker", 0, annotations={key: "9" * 5_000})
    assert "worker-1" in told(a_job(a_task("worker", 2), phase="Pending"), pod, group="Inqueue").created


@pytest.mark.parametrize("members", ["9" * 5_000, f"0-{'9' * 5_000}", ",".join(["0-99999"] * 50_000)])
def test_a_progress_with_numbers_beyond_all_measure_does_not_stop_its_job(members):
    job = a_job(a_task("worker", 2), phase="Pending", progress={"members": {"worker": members}})
    assert told(job, group="Inqueue").created == ["worker-0", "worker-1"]


def test_a_name_that_a_former_job_still_holds_is_waited_for():
    job = a_job(a_task("worker", 2), phase="Pending")
    found = told(job, a_pod("worker", 0, owner="former", leaving=True), group="Inqueue")
    assert (found.created, found.killed) == (["worker-1"], set())


def test_pods_of_a_former_job_count_for_nothing():
    job = a_job(a_task("worker", 2), phase="Pending")
    found = told(job, *[a_pod("worker", index, owner="former") for index in range(2)], group="Inqueue")
    assert (found.phase, found.created) == ("Pending", [])


def test_a_queue_with_other_clusters_marks_the_job_before_its_pods():
    queue = decoding.decode_value(
        Queue, {"metadata": {"name": "default"}, "spec": {"extendClusters": [{"name": "east"}]}}
    )
    job = a_job(a_task("worker", 1), phase="Pending")
    found = told(job, group="Inqueue", queue=queue)
    (patch,) = found.operations
    assert patch.body == {"metadata": {"annotations": {"volcano.sh/job-forwarding": "true"}}}
    marked = a_job(a_task("worker", 1), phase="Pending", annotations={"volcano.sh/job-forwarding": "true"})
    metadata = pod_of(marked, "worker-0", queue=queue)["metadata"]
    assert (
        metadata["labels"]["volcano.sh/job-forwarding"]
        == metadata["annotations"]["volcano.sh/job-forwarding"]
        == "true"
    )


def test_a_job_without_admission_gets_the_defaults_that_admission_gives():
    job = a_job(
        {"replicas": 2, "template": resources()},
        phase="Pending",
        minAvailable=0,
        maxRetry=0,
        schedulerName="",
        queue="",
    )
    found = told(job, group=None)
    assert found.bodies[GROUP]["spec"]["minMember"] == 2
    assert found.bodies[GROUP]["spec"]["queue"] == "default"
    pod = told(job, group="Inqueue").bodies["Pod/train-default0-1"]
    assert pod["spec"]["schedulerName"] == "volcano"


def test_a_job_without_admission_finds_services_from_the_network_of_its_nodes():
    job = a_job(a_task("worker", 1, template={"spec": {"hostNetwork": True, "containers": []}}), phase="Pending")
    assert told(job, group="Inqueue").bodies["Pod/train-worker-0"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


# ----------------------------------------------------------------------------------------------------- dependencies


def test_a_task_waits_until_enough_pods_of_the_other_are_ready():
    tasks = [a_task("ps", 2, minAvailable=1), a_task("worker", 1, dependsOn={"name": ["ps"]})]
    job = a_job(*tasks, phase="Pending")
    assert told(job, group="Inqueue").created == ["ps-0", "ps-1"]
    starting = [a_pod("ps", 0, ready=False), a_pod("ps", 1, "Pending")]
    assert told(job, *starting, group="Inqueue").created == []
    assert told(job, a_pod("ps", 0), starting[1], group="Inqueue").created == ["worker-0"]
    assert told(job, a_pod("ps", 0, "Succeeded"), starting[1], group="Inqueue").created == ["worker-0"]


@pytest.mark.parametrize(("iteration", "created"), [("any", ["worker-0"]), ("all", []), ("", [])])
def test_one_of_several_dependencies_is_enough_where_any_is_asked_for(iteration, created):
    depends = {"name": ["a", "b"], "iteration": iteration}
    job = a_job(a_task("a", 1), a_task("b", 1), a_task("worker", 1, dependsOn=depends), phase="Pending", minAvailable=3)
    assert told(job, a_pod("a", 0), a_pod("b", 0, "Pending"), group="Inqueue").created == created


# ---------------------------------------------------------------------------------------------------------- volumes


def test_a_claim_that_the_user_names_must_exist_and_the_job_waits_for_it():
    job = a_job(a_task("worker", 1), phase="Pending", volumes=[{"mountPath": "/data", "volumeClaimName": "mine"}])
    found = told(job, group=None)
    assert found.bodies == {}
    assert found.events == [
        ("PVCError", "claim mine does not exist: the job waits for it; create it, or correct spec.volumes")
    ]
    there = told(job, group=None, claims=frozenset({"mine"}))
    assert GROUP in there.bodies
    assert there.job.status.controlled_resources["volume-pvc-mine"] == "mine"


def test_a_claim_that_the_job_describes_is_made_and_its_name_written_back():
    wish = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "futureField": 1}
    job = a_job(a_task("worker", 1), phase="Pending", volumes=[{"mountPath": "/data", "volumeClaim": wish}])
    found = told(job, group=None)
    create, patch = found.operations
    assert re.fullmatch(r"train-pvc-[0-9a-z]{12}", create.name)
    assert create.body["spec"] == wish
    assert create.body["metadata"]["ownerReferences"][0]["uid"] == UID
    assert patch.body[1] == {"op": "add", "path": "/spec/volumes/0/volumeClaimName", "value": create.name}
    assert told(job, group=None).operations == [create, patch]  # the same name whenever it is asked for
    named = a_job(
        a_task("worker", 1),
        phase="Pending",
        volumes=[{"mountPath": "/data", "volumeClaim": wish, "volumeClaimName": create.name}],
    )
    then = told(named, group=None, claims=frozenset({create.name}))
    assert set(then.bodies) == {GROUP}
    assert then.job.status.controlled_resources[f"volume-pvc-{create.name}"] == create.name


def test_every_container_mounts_each_claim_once():
    spec = {
        "initContainers": [{"name": "init", "image": "x"}],
        "containers": [
            {"name": "a", "image": "x", "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
            {"name": "b", "image": "x"},
        ],
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "mine"},
        {"mountPath": "/again", "volumeClaimName": "mine"},
        {"mountPath": "/more", "volumeClaimName": "other"},
    ]
    status = {"controlledResources": {"volume-pvc-mine": "mine", "volume-pvc-other": "other"}}
    job = a_job(a_task("worker", 2, template={"spec": spec}), phase="Pending", volumes=volumes, status=status)
    pod = pod_of(job, "worker-0")["spec"]
    own, mine, other = pod["volumes"]
    assert own == {"name": "own", "emptyDir": {}}
    assert re.fullmatch(r"train-[0-9a-z]{12}", mine["name"])
    assert (mine["persistentVolumeClaim"], other["persistentVolumeClaim"]) == (
        {"claimName": "mine"},
        {"claimName": "other"},
    )
    for container in pod["containers"]:
        assert container["volumeMounts"][-2:] == [
            {"name": mine["name"], "mountPath": "/data"},
            {"name": other["name"], "mountPath": "/more"},
        ]
    assert "volumeMounts" not in pod["initContainers"][0]
    assert pod_of(job, "worker-1")["spec"]["volumes"] == pod["volumes"]
