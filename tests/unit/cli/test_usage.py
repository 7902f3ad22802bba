"""Who uses what, from literal views."""

import msgspec
import pytest

from pumice.cli import top, usage
from pumice.cli.colours import PLAIN
from pumice.errors import NotFound
from pumice.instant import parse_instant
from pumice.readmodel import model

GPU = "nvidia.com/gpu"
NOW = parse_instant("2026-11-15T12:00:00Z")


def gpus(count):
    return {GPU: str(count)}


def a_queue(name, held, *, entitled=None, limit=None, left=0, **more):
    return model.Queue(
        name=name, parent="root", allocated=gpus(held), entitled=gpus(entitled) if entitled else {},
        limit=gpus(limit) if limit else {}, left=gpus(left), **more,
    )  # fmt: skip


def a_gang(name, queue, user, held=0, *, namespace="ml", position=0, waiting=0, **more):
    return model.Gang(
        key=f"{namespace}/{name}", namespace=namespace, name=name, queue=queue, user=user,
        phase="Running" if held else "Pending", holds=gpus(held) if held else {}, position=position,
        members=model.Members(minimum=1, running=held, waiting=waiting), created="2026-11-15T11:59:00Z", **more,
    )  # fmt: skip


def a_state(queues, gangs, *, total=16, used=None, namespace=""):
    held = sum(int(each.holds.get(GPU, 0)) for each in gangs) if used is None else used
    return model.State(
        version=1, leader="me", cycle=7, at="2026-11-15T11:59:59Z", namespace=namespace, queues=tuple(queues),
        policy=model.Policy(source="policy.yaml", actions=(), plugins=()), gangs=tuple(gangs),
        totals=model.Totals(nodes=2, allocatable={"cpu": "64", **gpus(total)}, used=gpus(held)),
    )  # fmt: skip


STATE = a_state(
    [
        a_queue("a", 8, entitled=4, limit=12, left=4, borrowed=gpus(4), running=2, guarantee=gpus(2)),
        a_queue("b", 4, entitled=12, limit=12, left=8, running=1, waiting=1),
    ],
    [
        a_gang("big", "a", "mia", 6, job="train"),
        a_gang("small", "a", "tom", 2),
        a_gang("more", "b", "mia", 4),
        a_gang("next", "b", "tom", position=1, waiting=3, asks=gpus(3)),
        a_gang("over", "b", "tom"),
    ],
)


def test_rows_add_up_by_queue_user_and_job_the_largest_first():
    found = usage.usage(STATE, "leader")
    assert (found.resource, found.total, found.used, found.free) == (GPU, 16, 12, 4)
    assert [(each.name, each.held, each.share, each.borrowed, each.left) for each in found.queues] == [
        ("a", 8, 0.5, 4, 4),
        ("b", 4, 0.25, 0, 8),
    ]
    assert [(each.name, each.held, each.running, each.waiting, each.queues) for each in found.users] == [
        ("mia", 10, 2, 0, ("a", "b")),
        ("tom", 2, 1, 1, ("a", "b")),
    ]
    assert [(each.name, each.gang, each.held, each.position) for each in found.jobs] == [
        ("train", "ml/big", 6, 0),
        ("more", "ml/more", 4, 0),
        ("small", "ml/small", 2, 0),
        ("next", "ml/next", 0, 1),  # what neither holds nor waits is no longer there
    ]
    assert (found.others.gangs, found.others.pods) == (0, 0)


def test_one_queue_and_one_user_can_be_looked_at_alone():
    assert [each.name for each in usage.usage(STATE, "leader", queue="b").queues] == ["b"]
    assert [each.gang for each in usage.usage(STATE, "leader", queue="b", user="mia").jobs] == ["ml/more"]


def test_what_may_not_be_seen_and_what_is_in_no_queue_is_told_as_a_sum():
    seen = msgspec.structs.replace(
        STATE, namespace="ml", gangs=STATE.gangs[1:2], totals=a_state([], [], used=13).totals
    )
    found = usage.usage(seen, "leader")
    assert [each.name for each in found.users] == ["tom"]
    assert (found.others.gangs, found.others.pods) == (10, 1)
    shown = top.text(found, NOW, by="user", rows=9, paint=PLAIN)
    assert shown.splitlines()[2:] == [
        "USER                  HELD   SHARE   RUNNING   WAITING   QUEUES",
        "tom                   2      12%     1         0         a",
        "(others, not in ml)   10",
        "(pods of no queue)    1",
    ]


def test_queues_below_others_are_not_counted_twice():
    root = model.Queue(name="root", allocated=gpus(12))
    found = usage.usage(msgspec.structs.replace(STATE, queues=(root, *STATE.queues)), "leader")
    assert (found.others.gangs, found.others.pods) == (0, 0)


def test_the_resource_is_the_commonest_gpu_else_cpu_and_one_that_nobody_has_is_an_error():
    totals = model.Totals(nodes=1, allocatable={"cpu": "4", "amd.com/gpu": "8", GPU: "2"}, used={})
    assert usage.resource_of(totals).resource == "amd.com/gpu"
    assert usage.resource_of(model.Totals(nodes=1, allocatable={"cpu": "4"}, used={})).resource == "cpu"
    with pytest.raises(NotFound, match=r"no node has any; the nodes have amd\.com/gpu, cpu, nvidia\.com/gpu"):
        usage.resource_of(totals, "tpu")
    assert usage.usage(a_state([], [], total=0), "leader").total == 64  # cores, where there are no cards


def test_without_shares_and_limits_there_are_none():
    [queue] = usage.usage(a_state([a_queue("a", 0, left=16)], []), "listing").queues
    assert (queue.deserved, queue.limit, queue.guarantee, queue.left) == (None, None, None, 16)


def test_the_table_says_who_says_so():
    shown = top.text(usage.usage(STATE, "leader"), NOW, by="", rows=2, paint=PLAIN)
    assert shown == (
        "nvidia.com/gpu: 12 of 16 used, 4 free, as the scheduler says now\n"
        "\n"
        "QUEUE   STATE   WEIGHT   HELD   SHARE   DESERVED   BORROWED   LIMIT   LEFT   RUNNING   WAITING\n"
        "a       Open    1        8      50%     4          4          12      4      2         0\n"
        "b       Open    1        4      25%     12         0          12      8      1         1\n"
        "\n"
        "USER   HELD   SHARE   RUNNING   WAITING   QUEUES\n"
        "mia    10     62%     2         0         a,b\n"
        "tom    2      12%     1         1         a,b\n"
        "\n"
        "JOB     NAMESPACE   USER   QUEUE   PHASE     HELD   SHARE   PODS   POSITION   AGE\n"
        "train   ml          mia    a       Running   6      38%     6/6    -          60s\n"
        "more    ml          mia    b       Running   4      25%     4/4    -          60s\n"
        "... and 2 more; --rows shows them"
    )
    listed = top.text(usage.usage(STATE, "listing"), NOW, by="queue", rows=2, paint=PLAIN)
    assert listed.startswith(
        "nvidia.com/gpu: 12 of 16 used, 4 free, as one cycle over a listing finds, by policy.yaml\n"
    )
    assert "USER" not in listed


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        (GPU, None, "-"),
        (GPU, 0, "0"),
        (GPU, 16, "16"),
        (GPU, 5.3333, "5.33"),
        ("memory", 0, "0"),
        ("memory", 1023, "1023"),
        ("memory", 1.5 * 2**30, "1.5Gi"),
        ("memory", 2**70, "1024Ei"),
    ],
)
def test_numbers_are_short(resource, value, text):
    assert usage.shown(resource, value) == text


def test_what_jobs_use_of_their_gpus_is_shown_where_it_is_measured_and_what_is_held_for_nothing_is_named():
    lazy = model.GpuUse(pods=2, percent=0.4, memory_mib=2048, idle=True)
    busy = model.GpuUse(pods=4, percent=87.6, memory_mib=40960)
    gangs = [
        a_gang("lazy", "a", "mia", 2, gpu_use=lazy),
        a_gang("lazier", "a", "mia", 4, gpu_use=lazy),
        a_gang("busy", "a", "ben", 4, gpu_use=busy),
        a_gang("unseen", "a", "ben", 1),
    ]
    found = usage.usage(a_state([a_queue("a", 11)], gangs), "leader", prices={GPU: 2.5})
    table = top.text(found, NOW, by="job", rows=9, paint=PLAIN)
    assert table.splitlines()[2].split()[-3:] == ["GPU", "GPU-MEMORY", "$/HOUR"]
    cells = {line.split()[0]: line.split()[-3:] for line in table.splitlines()[3:]}
    assert cells == {
        "lazier": ["0%", "2.0Gi", "10.00"],
        "busy": ["88%", "40.0Gi", "10.00"],
        "lazy": ["0%", "2.0Gi", "5.00"],
        "unseen": ["-", "-", "2.50"],
    }
    idle = usage.idle(found)
    assert [each["name"] for each in usage.data(idle, "job")["jobs"]] == ["lazier", "lazy"]
    shown = top.idle_text(idle, NOW, rows=9, paint=PLAIN)
    assert shown.endswith("2 jobs below 5 % of their GPUs for ten minutes, $15.00 an hour")
    assert "busy" not in shown


def test_nobody_who_is_measured_is_idle():
    found = usage.idle(usage.usage(STATE, "leader"))
    assert top.idle_text(found, NOW, rows=9, paint=PLAIN) == "No job that is measured holds GPUs for nothing."
    assert "GPU-MEMORY" not in top.text(usage.usage(STATE, "leader"), NOW, by="", rows=9, paint=PLAIN)


def test_where_gpus_are_only_shared_their_memory_is_counted():
    totals = model.Totals(nodes=1, allocatable={"cpu": "8", "volcano.sh/vgpu-memory": "143771"}, used={})
    assert usage.resource_of(totals) == usage.ResourceTotal("volcano.sh/vgpu-memory", 143771)
