import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    binds,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

from pumice.cluster.cards import parse_register, slices_of, slices_text
from pumice.cluster.tasks import Status
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import Cure

NAME = "deviceshare"
IDS, INDEX = "volcano.sh/vgpu-ids-new", "volcano.sh/gpu-index"


def sharing(actions="allocate", tiers="gang", **arguments):
    """The policy with one way of sharing; arguments without their prefix."""
    given = {f"deviceshare.{key}": value for key, value in arguments.items()}
    return policy(actions, tiers, ["predicates", {"name": NAME, "arguments": given}])


VGPU = sharing(VGPUEnable=True)
MEMORY = sharing(GPUSharingEnable=True)
NUMBER = sharing(GPUNumberEnable=True)


def card(uuid, *, slices=10, memory=1000, kind="NVIDIA-A100", healthy="true", mode="hami-core"):
    return f"{uuid},{slices},{memory},{kind},{healthy},{mode}:"


def a_vgpu_node(name="n1", *cards, annotations=None, **more):
    notes = {"volcano.sh/node-vgpu-register": "".join(cards or (card("G0"), card("G1"))), **(annotations or {})}
    return a_node(name, annotations=notes, **more)


def slice_(number=1, memory=None, *, percent=None, cores=None):
    """Limits of one container."""
    named = {"number": number, "memory": memory, "memory-percentage": percent, "cores": cores}
    limits = {f"volcano.sh/vgpu-{key}": str(value) for key, value in named.items() if value is not None}
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}


def sliced(
    name, size, *args, annotations=None, running=(), notes=(), group=None, min_member=None, labels=None, **limits
):
    """A gang whose pods want slices; `notes` are the cards of those that run."""
    members = []
    for number in range(size):
        own = dict(annotations or {})
        if number < len(running):
            own[IDS] = notes[number]
        members.append(
            a_pod(
                f"{name}-w-{number}", gang=name, cpu=None, annotations=own, labels=labels,
                node=running[number] if number < len(running) else "", **slice_(*args, **limits),
            )
        )  # fmt: skip
    return [a_group(name, size if min_member is None else min_member, **(group or {})), members]


def cards_of(decisions):
    """Pod -> [(card, memory, cores)] over all containers."""
    found = {}
    for commit in decisions.commits:
        for bind in commit.binds:
            parts = [each for container in slices_of(bind.annotations[IDS]) for each in container]
            found[bind.task.name] = [(each.uuid, each.memory, each.cores) for each in parts]
    return found


def reasons(decisions, gang):
    return {reason.text: reason.cure for reason in report(decisions, gang).reasons}


# ------------------------------------------------------------------------------------------------- slices


def test_a_pod_gets_a_slice_and_takes_the_choice_along():
    decisions = plan_for(a_vgpu_node(), sliced("g", 1, 1, 300, cores=20), policy=VGPU)
    ((bind,),) = [commit.binds for commit in decisions.commits]
    seconds = str(NOW // 1_000_000_000)
    assert bind.annotations == {
        IDS: "G1,NVIDIA,300,20:",
        "volcano.sh/devices-to-allocate": "G1,NVIDIA,300,20:",
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": seconds,
        "volcano.sh/bind-time": seconds,
        "volcano.sh/bind-phase": "allocating",
    }
    assert bind.lock == ""


def test_several_jobs_share_one_card():
    things = [a_vgpu_node("n1", card("G0"))]
    decisions = plan_for(things, sliced("a", 1, 1, 600), sliced("b", 1, 1, 400), policy=VGPU)
    assert cards_of(decisions) == {"a-w-0": [("G0", 600, 0)], "b-w-0": [("G0", 400, 0)]}


def test_a_card_is_never_given_more_than_it_has():
    node = a_vgpu_node("n1", card("G0"))
    assert started(plan_for(node, sliced("g", 3, 1, 400, min_member=1), policy=VGPU)) == {"g": 2}
    assert started(plan_for(node, sliced("g", 3, 1, 1, cores=40, min_member=1), policy=VGPU)) == {"g": 2}
    assert started(
        plan_for(a_vgpu_node("n1", card("G0", slices=2)), sliced("g", 3, 1, 1, min_member=1), policy=VGPU)
    ) == {"g": 2}


def test_a_gang_starts_only_if_all_its_members_get_their_slices():
    decisions = plan_for(a_vgpu_node("n1", card("G0")), sliced("g", 3, 1, 400), policy=VGPU)
    assert started(decisions) == {}


def test_memory_may_be_a_percentage_of_whatever_card_it_is():
    node = a_vgpu_node("n1", card("G0", memory=1000), card("G1", memory=400))
    decisions = plan_for(node, sliced("g", 1, 2, percent=50), policy=VGPU)
    assert cards_of(decisions) == {"g-w-0": [("G1", 200, 0), ("G0", 500, 0)]}


def test_a_number_alone_means_all_the_memory():
    assert cards_of(plan_for(a_vgpu_node(), sliced("g", 1, 1), policy=VGPU)) == {"g-w-0": [("G1", 1000, 0)]}


def test_memory_alone_means_one_card():
    assert cards_of(plan_for(a_vgpu_node(), sliced("g", 1, None, 300), policy=VGPU)) == {"g-w-0": [("G1", 300, 0)]}


def test_several_slices_of_a_container_are_of_different_cards():
    decisions = plan_for(a_vgpu_node(), sliced("g", 1, 2, 100), policy=VGPU)
    assert [uuid for uuid, _, _ in cards_of(decisions)["g-w-0"]] == ["G1", "G0"]
    assert started(plan_for(a_vgpu_node(), sliced("g", 1, 3, 100), policy=VGPU)) == {}


def test_all_cores_mean_the_card_for_itself():
    node = a_vgpu_node("n1", card("G0"))
    assert started(plan_for(node, sliced("g", 2, 1, 1, cores=100, min_member=1), policy=VGPU)) == {"g": 1}
    one = sliced("one", 1, 1, 1, running=["n1"], notes=["G0,NVIDIA,1,10:"])
    assert started(plan_for(node, one, sliced("g", 1, 1, 1, cores=100), policy=VGPU)) == {}


def test_a_card_without_free_cores_takes_nobody_who_asks_for_none():
    one = sliced("one", 1, 1, 1, running=["n1"], notes=["G0,NVIDIA,1,100:"])
    assert started(plan_for(a_vgpu_node("n1", card("G0")), one, sliced("g", 1, 1, 1), policy=VGPU)) == {}


def test_what_running_pods_hold_is_read_from_their_annotations():
    one = sliced("one", 1, 1, 800, running=["n1"], notes=["G1,NVIDIA,800,0:"])
    assert cards_of(plan_for(a_vgpu_node(), one, sliced("g", 1, 1, 300), policy=VGPU)) == {"g-w-0": [("G0", 300, 0)]}


def test_broken_cards_and_mig_cards_are_not_used():
    node = a_vgpu_node("n1", card("G0"), card("G1", healthy="false"), card("G2", mode="mig"))
    assert cards_of(plan_for(node, sliced("g", 1, 1, 300), policy=VGPU)) == {"g-w-0": [("G0", 300, 0)]}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"nvidia.com/use-gputype": "v100, a100"}, "G1"),
        ({"nvidia.com/nouse-gputype": "a100"}, "G0"),
        ({"volcano.sh/vgpu-use-gpuuuid": "G0,G9"}, "G0"),
        ({"volcano.sh/vgpu-nouse-gpuuuid": "G1"}, "G0"),
        ({"volcano.sh/vgpu-mode": "hami-core"}, "G1"),
    ],
)
def test_a_pod_may_choose_among_cards(annotations, expected):
    node = a_vgpu_node("n1", card("G0", kind="NVIDIA-T4"), card("G1", kind="NVIDIA-A100"))
    decisions = plan_for(node, sliced("g", 1, 1, 300, annotations=annotations), policy=VGPU)
    assert cards_of(decisions) == {"g-w-0": [(expected, 300, 0)]}


def test_a_pod_that_wants_cards_that_nobody_has_is_told_that_nothing_but_a_change_helps():
    annotations = {"nvidia.com/use-gputype": "H100"}
    decisions = plan_for(a_vgpu_node(), sliced("g", 1, 1, 300, annotations=annotations), policy=VGPU)
    assert reasons(decisions, "g")["hami-vgpuDeviceSharing error: no cards that would do"] is Cure.CHANGE


def test_a_pod_that_finds_the_cards_full_is_told_that_eviction_could_help():
    one = sliced("one", 2, 1, 800, running=["n1"] * 2, notes=["G0,NVIDIA,800,0:", "G1,NVIDIA,800,0:"])
    decisions = plan_for(a_vgpu_node(), one, sliced("g", 1, 1, 300), policy=VGPU)
    assert reasons(decisions, "g")["hami-vgpuDeviceSharing error"] is Cure.EVICTION


# ------------------------------------------------------------------------------------------------- order of cards and nodes


def used(*parts):
    """A gang that runs on n1 and holds these parts of cards."""
    return sliced("old", len(parts), 1, 1, running=["n1"] * len(parts), notes=list(parts))


@pytest.mark.parametrize(("order", "expected"), [("binpack", "G1"), ("spread", "G0"), ("", "G2")])
def test_the_policy_says_which_card_comes_first(order, expected):
    node = a_vgpu_node("n1", card("G0"), card("G1"), card("G2"))
    old = used("G1,NVIDIA,500,0:", "G2,NVIDIA,10,0:")
    decisions = plan_for(node, old, sliced("g", 1, 1, 100), policy=sharing(VGPUEnable=True, SchedulePolicy=order))
    assert cards_of(decisions)["g-w-0"][0][0] == expected


@pytest.mark.parametrize(("order", "expected"), [("binpack", "n1"), ("spread", "n2")])
def test_with_a_weight_the_policy_decides_between_nodes_too(order, expected):
    things = [a_vgpu_node("n1", card("G0")), a_vgpu_node("n2", card("H0")), used("G0,NVIDIA,500,0:")]
    rules = sharing(VGPUEnable=True, SchedulePolicy=order, ScheduleWeight=10)
    assert binds(plan_for(things, sliced("g", 1, 1, 100), policy=rules)) == {"g-w-0": expected}


def test_the_score_is_how_full_the_cards_would_be():
    rules = sharing(VGPUEnable=True, SchedulePolicy="binpack", ScheduleWeight=2)
    session = session_for(a_vgpu_node("n1", card("G0")), used("G0,NVIDIA,500,0:"), sliced("g", 1, 1, 100), policy=rules)
    (task,) = session.gangs["default/g"].tasks
    assert session.placer.scores(session.shape(task), task, np.array([0])).tolist() == [120]


def test_pods_placed_at_once_go_where_they_would_go_one_by_one():
    cards = [card("G0", memory=700), card("G1", memory=900), card("G2", memory=500)]
    for order in ("binpack", "spread", ""):
        rules = sharing(VGPUEnable=True, SchedulePolicy=order, ScheduleWeight=3)
        things = [a_vgpu_node(f"n{number}", *cards[number:]) for number in range(3)]
        session = session_for(things, sliced("g", 12, 1, 200), policy=rules)
        gang = session.gangs["default/g"]

        def places(most, session=session, gang=gang):
            statement, found = session.statement(), []
            waiting = list(gang.tasks)
            while waiting:
                shape = session.shape(waiting[0])
                nodes = session.placer.fill(shape, min(most, len(waiting))).nodes
                if not nodes:
                    break
                batch, waiting = waiting[: len(nodes)], waiting[len(nodes) :]
                statement.place(Placement(gang, shape, batch, nodes, Status.ALLOCATED))
                found += nodes
            statement.rollback()
            return found

        assert places(100) == places(1)
        assert len(places(1)) == 12


# ------------------------------------------------------------------------------------------------- who avoids whom


def test_members_of_a_gang_that_spreads_do_not_share_a_card():
    spread = {"volcano.sh/vgpu-podgroup-policy": "spread"}
    decisions = plan_for(a_vgpu_node(), sliced("g", 2, 1, 100, annotations=spread), policy=VGPU)
    assert sorted(parts[0][0] for parts in cards_of(decisions).values()) == ["G0", "G1"]
    assert started(plan_for(a_vgpu_node(), sliced("g", 3, 1, 100, annotations=spread), policy=VGPU)) == {}


def test_pods_of_one_exclusive_rule_do_not_share_a_card():
    rules = sharing(VGPUEnable=True, GPUExclusiveRules=[{"tier": "gold"}])
    node = a_vgpu_node("n1", card("G0"))
    gold = sliced("gold", 2, 1, 100, labels={"tier": "gold"}, min_member=1)
    assert started(plan_for(node, gold, policy=rules)) == {"gold": 1}
    assert started(plan_for(node, gold, sliced("any", 1, 1, 100), policy=rules)) == {"gold": 1, "any": 1}


# ------------------------------------------------------------------------------------------------- device plugins


@pytest.mark.parametrize(
    ("handshake", "starts"),
    [
        ("", True),
        ("Reported 2026.01.01 00:00:00", True),
        ("Requesting_2026.01.01 00:59:30", True),
        ("Requesting_2026.01.01 00:00:00", False),
        ("Requesting_gibberish", True),
        ("Deleted_2026.01.01 00:00:00", False),
    ],
)
def test_cards_of_a_device_plugin_that_has_left_are_not_used(handshake, starts):
    node = a_vgpu_node("n1", annotations={"volcano.sh/node-vgpu-handshake": handshake})
    assert bool(started(plan_for(node, sliced("g", 1, 1, 100), policy=VGPU))) is starts


@pytest.mark.parametrize("text", ["", ":", "x", "a,b:", "G0,x,y,z,true:", ",,,,,:", "G0,99999999999999,1,t,true:"])
def test_a_registration_that_makes_no_sense_stops_nobody(text):
    node = a_vgpu_node("n1", annotations={"volcano.sh/node-vgpu-register": text})
    decisions = plan_for(node, a_vgpu_node("n2"), sliced("g", 1, 1, 100), policy=VGPU)
    assert binds(decisions) == {"g-w-0": "n2"}


@pytest.mark.parametrize("text", [";;;", "G0", "G0,NVIDIA,x,y:", "unknown,NVIDIA,5,5:"])
def test_what_a_stranger_writes_into_a_pods_annotation_stops_nobody(text):
    old = sliced("old", 1, 1, 1, running=["n1"], notes=[text])
    assert started(plan_for(a_vgpu_node(), old, sliced("g", 1, 1, 100), policy=VGPU)) == {"g": 1}


def test_cards_are_read_and_written_as_device_plugins_do():
    cards = parse_register("GPU-a,10,32768,NVIDIA-Tesla V100,true,hami-core:GPU-b,4,100,NVIDIA-T4,false:").cards
    assert [(each.uuid, each.slices, each.memory, each.healthy, each.mode) for each in cards] == [
        ("GPU-a", 10, 32768, True, "hami-core"),
        ("GPU-b", 4, 100, False, "hami-core"),
    ]
    text = "GPU-a,NVIDIA,100,20:GPU-b,NVIDIA,100,20:;GPU-a,NVIDIA,5,0:"
    assert slices_text(slices_of(text)) == text


def test_only_containers_that_want_cards_appear_in_the_annotation():
    wants = {"resources": {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10"}}}
    pod = a_pod("p", gang="g", cpu=None, spec={"containers": [{"name": "side"}, {"name": "main", **wants}]})
    decisions = plan_for(a_vgpu_node(), a_group("g", 1), pod, policy=VGPU)
    ((bind,),) = [commit.binds for commit in decisions.commits]
    assert bind.annotations[IDS] == "G1,NVIDIA,10,0:"


# ------------------------------------------------------------------------------------------------- memory of a card, whole cards


def a_gpu_node(name="n1", cards=2, memory=1000, **more):
    return a_node(
        name, more={"volcano.sh/gpu-number": str(cards), "volcano.sh/gpu-memory": str(cards * memory)}, **more
    )


def wanting(name, size, resource, amount, *, running=(), indexes=(), **more):
    limits = {f"volcano.sh/{resource}": str(amount)}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    members = [
        a_pod(
            f"{name}-w-{number}", gang=name, cpu=None, spec=spec,
            node=running[number] if number < len(running) else "",
            annotations={INDEX: indexes[number]} if number < len(indexes) else {},
        )
        for number in range(size)
    ]  # fmt: skip
    return [a_group(name, more.pop("min_member", size), **more), members]


def indexes(decisions):
    return {bind.task.name: bind.annotations[INDEX] for commit in decisions.commits for bind in commit.binds}


def test_memory_comes_from_the_first_card_that_has_enough():
    decisions = plan_for(a_gpu_node(), wanting("g", 3, "gpu-memory", 400), policy=MEMORY)
    assert indexes(decisions) == {"g-w-0": "0", "g-w-1": "0", "g-w-2": "1"}
    assert {bind.annotations["volcano.sh/predicate-time"] for bind in decisions.commits[0].binds} == {str(NOW)}


def test_memory_that_no_single_card_has_left_is_not_there():
    old = wanting("old", 2, "gpu-memory", 600, running=["n1", "n1"], indexes=["0", "1"])
    decisions = plan_for(a_gpu_node(), old, wanting("g", 1, "gpu-memory", 500), policy=MEMORY)
    assert started(decisions) == {}
    assert reasons(decisions, "g")["GpuShare no enough gpu memory"] is Cure.EVICTION


def test_memory_that_no_card_ever_has_is_said_to_be_so():
    decisions = plan_for(a_gpu_node(), wanting("g", 1, "gpu-memory", 1500), policy=MEMORY)
    assert reasons(decisions, "g")["GpuShare no enough gpu memory: no cards that would do"] is Cure.CHANGE


def test_unhealthy_cards_are_not_used():
    node = a_gpu_node(annotations={"volcano.sh/gpu-unhealthy-ids": "0, 7,x"})
    assert indexes(plan_for(node, wanting("g", 1, "gpu-memory", 400), policy=MEMORY)) == {"g-w-0": "1"}


def test_whole_cards_go_to_one_pod_each():
    decisions = plan_for(a_gpu_node(cards=4), wanting("g", 2, "gpu-number", 2), policy=NUMBER)
    assert indexes(decisions) == {"g-w-0": "0,1", "g-w-1": "2,3"}


def test_cards_that_running_pods_have_are_not_given_again():
    old = wanting("old", 1, "gpu-number", 2, running=["n1"], indexes=["1,2"])
    decisions = plan_for(a_gpu_node(cards=4), old, wanting("g", 1, "gpu-number", 2), policy=NUMBER)
    assert indexes(decisions) == {"g-w-0": "0,3"}


def test_the_hungriest_init_container_counts():
    big = {"name": "init", "resources": {"limits": {"volcano.sh/gpu-memory": "900"}}}
    small = {"name": "main", "resources": {"limits": {"volcano.sh/gpu-memory": "100"}}}
    pods = [
        a_pod(f"g-w-{n}", gang="g", cpu=None, spec={"containers": [small], "initContainers": [big]}) for n in range(2)
    ]
    assert indexes(plan_for(a_gpu_node(), a_group("g", 2), pods, policy=MEMORY)) == {"g-w-0": "0", "g-w-1": "1"}


# ------------------------------------------------------------------------------------------------- evictions and undoing


def test_evicting_a_pod_frees_its_part_of_the_card():
    rules = sharing("preempt", "priority gang", VGPUEnable=True)
    old = sliced(
        "old", 2, 1, 800, running=["n1"] * 2, notes=["G0,NVIDIA,800,0:", "G1,NVIDIA,800,0:"], min_member=0,
        group={"phase": "Running"},
    )  # fmt: skip
    new = sliced("new", 1, 1, 900, group={"priority_class": "high"})
    decisions = plan_for(a_vgpu_node(), a_priority_class("high", 9), old, new, policy=rules)
    assert len(evicted(decisions)) == 1


def test_rolling_back_leaves_no_trace_on_the_cards():
    old = sliced("old", 1, 1, 800, running=["n1"], notes=["G0,NVIDIA,800,30:"])
    session = session_for(a_vgpu_node(), old, sliced("g", 2, 1, 900), policy=VGPU)
    (hook,) = [each for each in session.points.annotate.hooks if each.plugin == "deviceshare"]
    plugin = hook.call.__self__

    def state():
        return plugin.book.boards[0].state(["gang default/g", "gang default/old"], named=True, in_order=False)

    before = state()
    statement = session.statement()
    gang = session.gangs["default/g"]
    shape = session.shape(gang.tasks[0])
    statement.place(Placement(gang, shape, [gang.tasks[0]], [0], Status.ALLOCATED))
    assert not session.placer.feasible(shape, None).any()
    statement.evict(session.gangs["default/old"].tasks[0], "preempt")
    statement.place(Placement(gang, shape, [gang.tasks[1]], [0], Status.PIPELINED))
    assert plugin.book.held["default/g-w-1"][0][0].card == 0
    statement.rollback()
    assert state() == before
    assert plugin.book.given == set()


# ------------------------------------------------------------------------------------------------- arguments


def test_the_lock_that_a_device_plugin_wants_is_named():
    decisions = plan_for(
        a_vgpu_node(), sliced("g", 1, 1, 1), a_gang("plain", 1), policy=sharing(VGPUEnable=True, NodeLockEnable=True)
    )
    assert {bind.task.name: bind.lock for commit in decisions.commits for bind in commit.binds} == {
        "g-w-0": "hamivgpu",
        "plain-w-0": "",
    }
    locking = sharing(GPUSharingEnable=True, NodeLockEnable=True)
    decisions = plan_for(a_gpu_node(), wanting("g", 1, "gpu-memory", 1), policy=locking)
    assert decisions.commits[0].binds[0].lock == "gpu"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"GPUSharingEnable": True, "GPUNumberEnable": True},
            "GPUSharingEnable and deviceshare.GPUNumberEnable exclude each other",
        ),
        (
            {"VGPUEnable": True, "GPUNumberEnable": True},
            "GPUNumberEnable and deviceshare.VGPUEnable exclude each other",
        ),
        (
            {"AscendMindClusterVNPUEnable": True},
            "deviceshare.AscendMindClusterVNPUEnable: Ascend NPUs are not supported",
        ),
        ({"AscendHAMiVNPUEnable": True}, "deviceshare.AscendHAMiVNPUEnable: Ascend NPUs are not supported"),
        ({"SchedulePolicy": "fastest"}, "fastest"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(arguments, message):
    with pytest.raises(PolicyError, match=message):
        session_for(policy=sharing(**arguments))


def test_with_nothing_turned_on_nothing_is_registered():
    session = session_for(a_vgpu_node(), policy=sharing())
    points = session.points
    hooks = [*points.filter.hooks, *points.limit.hooks, *points.moved.hooks, *points.annotate.hooks]
    assert NAME not in {hook.plugin for hook in hooks}


def test_cards_that_only_the_annotation_knows_count_as_the_nodes_own():
    node = a_vgpu_node("n1", card("G0", slices=3, memory=700), card("G1", slices=2, memory=300, healthy="false"))
    session = session_for(node, policy=VGPU)
    assert {
        name.removeprefix("volcano.sh/vgpu-"): value for name, value in session.total.items() if "vgpu" in name
    } == {
        "number": 3000,
        "memory": 700_000,
        "cores": 100_000,
        "memory-percentage": 100_000,
    }
