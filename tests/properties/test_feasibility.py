"""Against an exact solver: nothing that could run is called impossible, and a gang of equal pods that fits is started."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, plan_for, policy, report, started

cp_model = pytest.importorskip("ortools.sat.python.cp_model", reason="OR-Tools is an optional dependency")

POLICY = policy("allocate, backfill", "priority gang conformance", "predicates nodeorder binpack")
ZONES = ("east", "west")

rooms = st.fixed_dictionaries(
    {"cpu": st.integers(0, 5), "gpu": st.integers(0, 3), "pods": st.integers(0, 5), "zone": st.sampled_from(ZONES),
     "tainted": st.booleans()}
)  # fmt: skip
shapes = st.fixed_dictionaries(
    {"cpu": st.integers(0, 3), "gpu": st.integers(0, 2), "zone": st.sampled_from(["", *ZONES])}
)


def nodes_of(drawn):
    return [
        a_node(
            f"n{number}", cpu=room["cpu"], gpu=room["gpu"], pods=str(room["pods"]), labels={"zone": room["zone"]},
            taints=["dedicated=x:NoSchedule"] if room["tainted"] else (),
        )
        for number, room in enumerate(drawn)
    ]  # fmt: skip


def pod_of(name, shape, **more):
    spec = {"nodeSelector": {"zone": shape["zone"]}} if shape["zone"] else {}
    return a_pod(name, cpu=shape["cpu"], gpu=shape["gpu"], spec=spec, **more)


def could_run(drawn, members, least, role_minimums):
    """Whether `least` of the members, and of each role its minimum, fit onto the nodes together; members are (shape, role)."""
    model = cp_model.CpModel()
    placed = {}
    for number, (shape, _) in enumerate(members):
        options = []
        for node, room in enumerate(drawn):
            if not room["tainted"] and shape["zone"] in {"", room["zone"]}:
                options.append(placed.setdefault((number, node), model.new_bool_var(f"{number} on {node}")))
        model.add_at_most_one(options)
    for node, room in enumerate(drawn):
        here = [(variable, members[number][0]) for (number, where), variable in placed.items() if where == node]
        for what in ("cpu", "gpu"):
            model.add(sum(variable * shape[what] for variable, shape in here) <= room[what])
        model.add(sum(variable for variable, _ in here) <= room["pods"])
    model.add(sum(placed.values()) >= least)
    for role, minimum in role_minimums.items():
        model.add(sum(variable for (number, _), variable in placed.items() if members[number][1] == role) >= minimum)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) in {cp_model.OPTIMAL, cp_model.FEASIBLE}


def is_called_impossible(decisions, gang):
    return any(reason.text.startswith("can never run here") for reason in report(decisions, gang).reasons)


def test_no_gang_that_could_run_on_the_empty_cluster_is_called_impossible(rounds):
    @given(
        st.lists(rooms, min_size=1, max_size=4),
        st.lists(st.tuples(shapes, st.sampled_from(["a", "b"])), min_size=1, max_size=6),
        st.integers(0, 6),
        st.booleans(),
    )
    def holds(drawn, members, least, with_roles):
        least = min(least, len(members))
        minimums = {role: 1 for role in ("a", "b") if any(own == role for _, own in members)} if with_roles else {}
        if least < sum(minimums.values()):
            minimums = {}
        pods = [pod_of(f"g-w-{number}", shape, gang="g", role=role) for number, (shape, role) in enumerate(members)]
        decisions = plan_for(nodes_of(drawn), a_group("g", least, roles=minimums or None), pods, policy=POLICY)
        if is_called_impossible(decisions, "g"):
            assert not could_run(drawn, members, least, minimums)

    rounds(holds, 200)


def test_a_lone_gang_of_equal_pods_starts_exactly_where_it_fits(rounds):
    @given(st.lists(rooms, min_size=1, max_size=4), shapes, st.integers(1, 6), st.integers(1, 6))
    def holds(drawn, shape, size, least):
        least = min(least, size)
        pods = [pod_of(f"g-w-{number}", shape, gang="g") for number in range(size)]
        decisions = plan_for(nodes_of(drawn), a_group("g", least), pods, policy=POLICY)
        fits = could_run(drawn, [(shape, "")] * size, least, {})
        assert (started(decisions).get("g", 0) >= least) is fits
        if shape["cpu"] or shape["gpu"]:  # pods that ask for nothing hold no gang back
            assert is_called_impossible(decisions, "g") is not fits

    rounds(holds, 200)


def test_what_runs_already_does_not_make_a_gang_impossible(rounds):
    @given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
    def holds(nodes, cpu, size):
        world = [a_node(f"n{number}", cpu=cpu) for number in range(nodes)]
        busy = [a_gang(f"busy{number}", cpu, running=[f"n{number}"] * cpu) for number in range(nodes)]
        decisions = plan_for(world, busy, a_gang("g", size), policy=POLICY)
        assert started(decisions) == {}
        assert is_called_impossible(decisions, "g") is (size > nodes * cpu)

    rounds(holds, 20)
