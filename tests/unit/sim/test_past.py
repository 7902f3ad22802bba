"""Workloads and clusters that exist: the record's gangs, and dumps of nodes, queues and gangs."""

from collections import Counter

import pytest
from tests.unit.scheduling.clusters import a_cluster, a_gang, a_node, a_pod, a_priority_class, a_queue, flat

from pumice import instant
from pumice.errors import BadInput
from pumice.record.model import GangRow
from pumice.scheduling.core import builtin
from pumice.sim import simulate
from pumice.sim.one_by_one import OneByOne
from pumice.sim.past import cluster_of_dump, in_slots, others_of_dump, work_of_dump, work_of_record
from pumice.sim.policies import NAMED
from pumice.sim.simulation import SLOT, Simulation, more_nodes


def a_row(uid, submitted, run_s, *shapes, queue="research", user="ann"):
    return GangRow(
        uid=uid, kind="Job", namespace="team", name=uid, user=user, queue=queue, team="", state="Completed", reason="",
        submitted=submitted, admitted=None, started=submitted, ended=submitted + run_s, wait_s=0, run_s=run_s, attempts=1,
        evictions=0, lost_s=0, gpu_hours=0.0, lost_gpu_hours=0.0, held={},
        shapes=[{"task": f"t{number}", "pods": pods, "resources": {"cpu": 1.0, SLOT: gpus}} for number, (pods, gpus) in enumerate(shapes)],
    )  # fmt: skip


def test_gangs_of_the_record_come_in_order_of_submission_and_run_as_they_did():
    work = work_of_record([a_row("late", 1500, 60, (1, 1.0)), a_row("first", 1000, 600, (4, 2.0), (1, 0.0))])
    assert [(each.at_s, each.run_s, each.size, each.slots, each.queue, each.user) for each in work] == [
        (0.0, 600.0, 4, 2, "research", "ann"),
        (500.0, 60.0, 1, 1, "research", "ann"),
    ]


def test_gangs_of_the_record_that_held_no_gpu_or_never_ran_are_left_out_and_uneven_ones_count_gpus():
    left_out = Counter()
    work = work_of_record(
        [a_row("cpu", 0, 60, (3, 0.0)), a_row("never", 0, 0, (1, 1.0)), a_row("uneven", 0, 60, (1, 4.0), (2, 1.0))],
        left_out,
    )
    assert [(each.size, each.slots) for each in work] == [(6, 1)]
    assert left_out == {"never_ran": 1, "no_gpu": 1}


NOW = instant.parse_instant("2026-11-01T12:00:00Z")


def a_run_since(text):
    return {"status": {"startTime": text}}


def test_gangs_of_a_dump_that_run_go_on_and_the_others_are_submitted_at_once_the_oldest_first():
    estimate = {"pumice.dev/running-estimate": "2h"}
    cluster = a_cluster(
        a_node("n1", gpu=16, cpu="16"),
        a_gang("young", 2, gpu=4, created=3),
        a_gang("old", 2, gpu=4, created=1),
        a_gang("runs", 2, gpu=1, running=["n1", "n1"], created=5, group={"annotations": estimate}, **a_run_since("2026-11-01T11:30:00Z")),
        a_gang("overdue", 1, gpu=1, running=["n1"], created=6, **a_run_since("2026-11-01T02:00:00Z")),
        a_gang("plain", 2, cpu="1", created=9),
        a_gang("over", 1, gpu=1, created=0, phase="Succeeded"),
    )  # fmt: skip
    work = work_of_dump(cluster, NOW, run_s=600)
    assert [(each.key, each.run_s, each.size, each.all_slots, each.ran_s) for each in work] == [
        ("default/runs", 7200, 2, 2, 1800),
        ("default/overdue", 39600, 1, 1, 36000),  # a tenth of its age more, as forecasts expect it
        ("default/old", 600, 2, 8, None),
        ("default/young", 600, 2, 8, None),
        ("default/plain", 600, 2, 0, None),
    ]
    left_out = Counter()
    assert [(each.key, each.run_s, each.size, each.slots) for each in in_slots(work, left_out)] == [
        ("", 5400, 2, 1), ("", 3600, 1, 1), ("", 600, 2, 4), ("", 600, 2, 4),
    ]  # fmt: skip
    assert left_out == {"no_gpu": 1}


def test_a_dump_is_played_as_it_is():
    """Room, selectors, taints and pods of others count, and who runs goes on where it is."""
    machines = [
        a_node("a", gpu=8, cpu="16", labels={"zone": "a"}),
        a_node("b", gpu=8, cpu="16", taints=["own=x:NoSchedule"]),
    ]
    daemon = a_pod("daemon", node="a", cpu="10", spec={"schedulerName": "default-scheduler"})
    gangs = [
        a_gang("runs", 1, gpu=4, cpu="2", running=["a"], **a_run_since("2026-11-01T11:55:00Z")),
        a_gang("pinned", 1, gpu=4, cpu="4", spec={"nodeSelector": {"zone": "a"}}, created=1),
        a_gang("hungry", 1, gpu=1, cpu="8", created=2),
        a_gang("tolerant", 1, gpu=8, cpu="1", created=3, spec={"tolerations": [{"operator": "Exists"}]}),
    ]
    work = work_of_dump(a_cluster(machines, gangs, daemon), NOW, run_s=600)
    others = others_of_dump(list(flat([machines, gangs, daemon, a_queue("x")])), work)
    assert others == [daemon]
    for policy in ("builtin", "fifo", "one-by-one"):
        named = NAMED[policy]
        if named.pod_by_pod:
            simulation = OneByOne(work, machines, others=others)
        else:
            simulation = Simulation(work, machines, policy=named.text, others=others, begin=NOW)
        for _ in simulation.steps():
            pass
        runs = {run.job.key.partition("/")[2]: (run.start_s, run.end_s) for run in simulation.outcome.runs}
        assert runs == {"runs": (0, 300), "pinned": (0, 600), "tolerant": (0, 600), "hungry": (None, None)}, policy
        assert simulation.outcome.figures["utilisation"] == (4 * 300 + 4 * 600 + 8 * 600) / (16 * 600)


def test_what_a_running_gang_of_a_dump_loses_to_an_eviction_is_all_that_it_had_done():
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    gangs = [
        a_gang(
            "runs",
            1,
            gpu=8,
            running=["a"],
            priority=1,
            group={"priority_class": "low"},
            **a_run_since("2026-11-01T11:55:00Z"),
        ),
        a_gang("urgent", 1, gpu=8, priority=100, group={"priority_class": "high"}),
    ]
    machines = [a_node("a", gpu=8, cpu="16")]
    work = work_of_dump(a_cluster(machines, gangs, classes), NOW, run_s=600)
    policy = builtin.TEXT.replace("enqueue, ", "")
    outcome = simulate(work, machines, policy=policy, others=classes, begin=NOW)
    assert [(run.start_s, run.end_s, run.restarts) for run in outcome.runs] == [(0, 1230, 1), (30, 630, 0)]
    assert outcome.figures["lost_gpu_h"] == 8 * 330 / 3600


def test_volumes_of_which_the_dump_says_nothing_keep_nobody_from_starting():
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    (job,) = work_of_dump(a_cluster(a_node("a", gpu=8), a_gang("g", 1, gpu=1, spec=volumes)), NOW)
    assert starts(simulate([job], [a_node("a", gpu=8)], begin=NOW)) == [0]


def starts(outcome):
    return [run.start_s for run in outcome.runs]


def test_a_cluster_of_a_dump_has_nodes_as_they_are_or_as_slots():
    dump = [
        a_node("n1", gpu=8, labels={"zone": "a"}),
        a_node("cpu", cpu="64"),
        a_node("cordoned", gpu=8, spec={"unschedulable": True}),
        a_queue("research", weight=3),
        a_queue("root"),
        a_priority_class("high", 100),
    ]
    nodes, queues, others = cluster_of_dump(dump, "dump.yaml", as_it_is=False)
    assert [(each.metadata.name, each.status.allocatable[SLOT], each.metadata.labels["zone"]) for each in nodes] == [
        ("n1", "8", "a")
    ]
    assert [(each.metadata.name, each.spec.weight) for each in queues] == [("research", 3)]
    assert [each.metadata.name for each in others] == ["high"]
    assert cluster_of_dump(dump, "dump.yaml", as_it_is=True)[0] == dump[:3]


def test_a_dump_without_gpus_says_what_to_give():
    with pytest.raises(BadInput, match=r"dump.yaml: no node in it has GPUs and takes pods; give what `kubectl get"):
        cluster_of_dump([a_node("cpu", cpu="64")], "dump.yaml", as_it_is=True)


def test_more_nodes_are_like_the_largest():
    nodes, _, _ = cluster_of_dump(
        [a_node("small", gpu=2), a_node("large", gpu=8, labels={"zone": "b"})], "dump", as_it_is=True
    )
    more = more_nodes(nodes, 2)
    assert [(each.metadata.name, each.status.allocatable[SLOT]) for each in more[2:]] == [
        ("added-00000", "8"),
        ("added-00001", "8"),
    ]
    assert more[2].metadata.labels == {"kubernetes.io/hostname": "added-00000", "zone": "b"}
    with pytest.raises(BadInput, match="--add-nodes 20000: 1 to 19998"):
        more_nodes(nodes, 20_000)
