"""fragmentation: what is free stays of use for the pods that are likely to come."""

import numpy as np
import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, binds, plan_for, policy, session_for

from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.placing.fragmentation import CARDS, Typical
from pumice.scheduling.plugins.fragmentation import RECENT_MAX, REMEMBERED_MAX, SLOT, Recent

GPU = "nvidia.com/gpu"


def fragmenting(**arguments):
    given = {f"fragmentation.{name}": value for name, value in arguments.items()}
    return policy("allocate", "gang", ["predicates", {"name": "fragmentation", "arguments": given}])


def sharing(**arguments):
    given = {f"fragmentation.{name}": value for name, value in arguments.items()}
    cards = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"}
    plugins = [{"name": "deviceshare", "arguments": cards}, {"name": "fragmentation", "arguments": given}]
    return policy("allocate", "gang", ["predicates", *plugins])


def scores(*things, rules, gang):
    session = session_for(*things, policy=rules)
    task = session.gangs[f"default/{gang}"].tasks[0]
    return session.placer.scores(session.shape(task), task, np.arange(len(session.room.table))).tolist()


def cards(name, number=2, **more):
    listed = "".join(f"{name}-{each},10,1000,NVIDIA,true,hami-core:" for each in range(number))
    return a_node(name, annotations={"volcano.sh/node-vgpu-register": listed}, **more)


def part(name, memory, *, number=1, node="", notes="", cpu="1"):
    limits = {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory), "cpu": cpu}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}
    return a_pod(
        name, gang="", cpu=None, node=node, spec=spec, annotations={"volcano.sh/vgpu-ids-new": notes} if notes else {}
    )


def test_the_worked_example():
    """Pods of 2 GPUs are likely. Of 4 free GPUs the first takes none away from them; of 2 it makes 1 useless for them.

    On `four`, before: 0 unusable, of two measures. After one GPU: 3 free, two can be used once: 0 and 1, so half a GPU becomes useless.
    On `two`, after: 1 free, none of it usable: one whole GPU by both measures. A GPU is worth half the points, x of them x/(1+x).
    """
    things = [a_node("four", cpu="99", gpu=4), a_node("two", cpu="99", gpu=2), a_gang("g", 1, gpu=1)]
    rules = fragmenting(weight=1, shapes=[{GPU: 2, "weight": 10_000}])
    four, two = scores(*things, rules=rules, gang="g")
    assert (four, two) == (pytest.approx(-100 / 3, abs=0.1), pytest.approx(-50, abs=0.1))


def test_one_gpu_goes_where_a_whole_node_is_broken_already():
    things = [
        a_node("whole", cpu="99", gpu=8), a_node("broken", cpu="99", gpu=8),
        a_pod("old", node="broken", gpu=1, cpu="1", spec={"schedulerName": "other"}),
        a_gang("big", 1, gpu=8, cpu="8", group={"phase": "Pending"}), a_gang("small", 1, gpu=1, cpu="1"),
    ]  # fmt: skip
    assert binds(plan_for(*things, policy=fragmenting()))["small-w-0"] == "broken"


def test_the_cpu_that_gpus_need_counts():
    """Likely pods need 8 CPUs beside each GPU: a pod that eats CPUs goes where they are not needed for GPUs."""
    things = [a_node("tight", cpu="16", gpu=2), a_node("rich", cpu="64", gpu=2), a_gang("eater", 1, cpu="10")]
    rules = fragmenting(shapes=[{GPU: 1, "cpu": 8}])
    assert binds(plan_for(*things, policy=rules)) == {"eater-w-0": "rich"}


def test_a_part_of_a_card_goes_where_it_leaves_no_useless_rest():
    """Halves are likely: 300 beside a half leaves 200 that no half fits into, and beside 200 it leaves a half."""
    things = [
        cards("a", 1), cards("b", 1), part("x", 500, node="a", notes="a-0,NVIDIA,500,0:"),
        part("y", 200, node="b", notes="b-0,NVIDIA,200,0:"), part("new", 300),
    ]  # fmt: skip
    rules = sharing(shapes=[{"volcano.sh/vgpu-memory": 500}])
    assert binds(plan_for(*things, policy=rules)) == {"new": "b"}


def test_shared_cards_that_a_likely_pod_may_not_use_are_free_to_take():
    """Pods of the likely kind want another type of card; what this one takes is no loss to them."""
    listed = "A-0,10,1000,A100,true,hami-core:"
    nodes = [a_node("a", annotations={"volcano.sh/node-vgpu-register": listed}), cards("n", 1)]
    likely = Typical(CARDS, 1, card_memory=800, types=("A100",))
    memory, _ = EMPTY.after([(SLOT, Recent(((likely, 100),)))])
    decisions = plan_for(*nodes, part("new", 300), policy=sharing(), memory=memory)
    assert binds(decisions) == {"new": "n"}


def test_without_gpus_in_sight_it_has_no_say():
    things = [a_node("n1", gpu=8), a_node("n2"), a_gang("g", 1)]
    assert scores(*things, rules=fragmenting(), gang="g") == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------- memory


def test_pods_that_were_started_are_remembered_by_kind():
    decisions = plan_for(a_node("n1", cpu="99", gpu=8), a_gang("g", 3, gpu=2, cpu="4"), policy=fragmenting())
    ((kind, count),) = decisions.memory.of(SLOT).kinds
    assert (kind.pool, kind.gpus, kind.cpu_milli, count) == (GPU, 2000, 4000, 3)
    memory = decisions.memory
    decisions = plan_for(a_node("n1", cpu="99", gpu=8), a_gang("h", 1), policy=fragmenting(), memory=memory)
    assert decisions.memory.of(SLOT) == memory.of(SLOT)


def test_a_scheduler_without_a_past_looks_at_what_runs():
    old = a_gang("old", 2, gpu=4, cpu="2", running=["n1", "n1"], group={"phase": "Running"})
    decisions = plan_for(a_node("n1", cpu="99", gpu=9), old, a_gang("g", 1, gpu=1), policy=fragmenting())
    assert {kind.gpus: count for kind, count in decisions.memory.of(SLOT).kinds} == {4000: 2, 1000: 1}


def test_what_is_long_ago_fades_and_the_memory_stays_small():
    old = [(Typical(GPU, 1000 * number, cpu_milli=number), 60) for number in range(1, 201)]
    memory, _ = EMPTY.after([(SLOT, Recent(tuple(old)))])
    decisions = plan_for(a_node("n1", gpu=8), a_gang("g", 2, gpu=1), policy=fragmenting(), memory=memory)
    kinds = decisions.memory.of(SLOT).kinds
    assert len(kinds) == REMEMBERED_MAX
    assert sum(count for _, count in kinds) <= RECENT_MAX
    assert not decisions.refused_memory


# ------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"cpu": 8}, "fragmentation.shapes[0]: asks for no GPU"),
        ({GPU: 1, "weight": 0}, "fragmentation.shapes[0]: weight is 0; give a whole number from 1 to"),
        ({GPU: 1, "cpu": "much"}, "fragmentation.shapes[0]: "),
        ({GPU: 0}, "leave out what such a pod does not ask for"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(shape, said):
    with pytest.raises(PolicyError) as error:
        plan_for(a_node("n1"), a_gang("g", 1), policy=fragmenting(shapes=[shape]))
    assert said in str(error.value)


def test_a_star_names_all_profiles_of_partitioned_gpus():
    mig = "nvidia.com/mig-1g.10gb"
    things = [a_node("n1", more={mig: 7}), a_gang("g", 1, more={mig: 1})]
    decisions = plan_for(*things, policy=fragmenting())
    assert [kind.pool for kind, _ in decisions.memory.of(SLOT).kinds] == [mig]
