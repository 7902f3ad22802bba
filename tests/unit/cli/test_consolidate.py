"""`pumice consolidate --dry-run`: what a plan looks like."""

from tests.unit.scheduling.clusters import NOW, a_gang, a_node, plan_for, policy, when

from pumice.cli import consolidate


def plan(*annotations):
    item = {"name": "consolidate", "arguments": {"minRuntimeSeconds": 0}}
    rules = policy("allocate, consolidate", "gang", "predicates", configurations=[item])
    nodes = [a_node(f"n{number}", cpu="99", gpu=8) for number in range(2)]
    group = {"phase": "Running", "annotations": dict(annotations)}
    started = {"startTime": when(0)}  # what a pod has lost counts from here: one that has not started loses nothing
    running = [
        a_gang(name, 1, gpu=2, cpu="1", running=[node], group=group, status=started)
        for name, node in (("a", "n0"), ("b", "n1"))
    ]
    return consolidate.moves_of(plan_for(nodes, running, a_gang("big", 1, gpu=8, cpu="1"), policy=rules), NOW)


def test_a_plan_says_who_moves_for_whom_and_what_is_lost():
    moves = plan(("pumice.dev/movable", "true"))
    assert moves == [
        {
            "for": "default/big",
            "moved": [{"pod": "default/a-w-0", "gang": "default/a", "from": "n0"}],
            "lostGpuHours": 2.0,
        }
    ]
    assert consolidate.text(moves) == (
        "default/big would start if default/a started again elsewhere: 1 pods, 2 GPU-hours of work lost\n"
        "  default/a-w-0 leaves n0"
    )


def test_where_nothing_can_be_moved_that_is_said():
    assert consolidate.text(plan()).startswith("Nothing to move: ")
