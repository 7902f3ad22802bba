"""The arrival of pods that never leave, on a small cluster of our own."""

import pytest
from bench import openb

from pumice.scheduling.core import builtin


def arrived(policy_name, seed, per_cycle=50):
    machines, pods = openb.generated(seed, nodes=12)
    policy = builtin.parse(openb.POLICIES[policy_name], policy_name)
    arriving = openb.arrival(pods, sum(each.gpus for each in machines), seed)
    return openb.run(machines, arriving, policy, per_cycle)


def test_pods_arrive_until_they_ask_for_more_than_there_is():
    machines, pods = openb.generated(7)
    gpus = sum(each.gpus for each in machines)
    arriving = openb.arrival(pods, gpus, 3)
    asked = sum(each.total for each in arriving)
    assert gpus * openb.CARD * openb.UNTIL <= asked < gpus * openb.CARD * openb.UNTIL + 8 * openb.CARD
    assert arriving == openb.arrival(pods, gpus, 3)
    assert arriving != openb.arrival(pods, gpus, 4)


@pytest.mark.parametrize("name", openb.POLICIES)
def test_every_policy_gives_most_of_the_gpus_away(name):
    outcome = arrived(name, 1)
    assert 0.6 < outcome.share <= 1
    assert 0 < outcome.placed < outcome.arrived  # more was asked for than there is


def test_keeping_what_is_free_of_use_gives_more_away_than_spreading():
    seeds = range(3)
    spread = sum(arrived("nodeorder", seed).share for seed in seeds)
    assert sum(arrived("fragmentation", seed).share for seed in seeds) > spread


def test_lists_differ_in_what_they_are_about():
    _, pods = openb.generated(5)
    lists = openb.lists_of(pods)

    def share(name, of):
        return sum(each.total for each in lists[name] if of(each)) / sum(each.total for each in lists[name])

    assert share("multi-gpu", lambda each: each.gpus > 1) >= 0.5
    assert share("fractions", lambda each: each.milli < openb.CARD) > share(
        "default", lambda each: each.milli < openb.CARD
    )
    assert len(lists["cpu-heavy"]) > len(lists["default"]) > len(lists["gpu-only"])


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        openb.MissingTrace, match=r"openb_nodes.csv and openb_pods.csv are not in .*; give their folder"
    ):
        openb.find_traces(str(tmp_path))


def test_lists_are_read_as_they_are_published(tmp_path):
    (tmp_path / "openb_nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\n")
    (tmp_path / "openb_pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np,12000,16384,1,470,V100M16|V100M32,LS\n"
    )
    folder = openb.find_traces(str(tmp_path))
    assert openb.read_machines(folder / "openb_nodes.csv") == [openb.Machine("a", 64000, 262144, 2, "P100")]
    assert openb.read_pods(folder / "openb_pods.csv") == [openb.Ask(12000, 16384, 1, 470, ("V100M16", "V100M32"))]
