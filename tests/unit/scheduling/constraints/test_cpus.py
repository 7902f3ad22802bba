"""Which CPUs a container gets: a node of two sockets, one NUMA node each, four cores of two threads.

NUMA 0 has CPUs 0-7, NUMA 1 has 8-15; cores are pairs (0, 1), (2, 3), ...
"""

import pytest

from pumice.api.nodeinfo import CpuInfo
from pumice.scheduling.placing.constraints.cpus import (
    BEST_EFFORT,
    NONE,
    RESTRICTED,
    SINGLE,
    assign,
    cpuset,
    cpuset_text,
    layout_of,
)


def detail(numa=2, cores=4, threads=2, *, numa_per_socket=1):
    per_numa = cores * threads
    return {
        str(cpu): CpuInfo(
            numa=cpu // per_numa,
            socket=cpu // per_numa // numa_per_socket,
            core=cpu // threads % (cores * numa_per_socket),
        )
        for cpu in range(numa * per_numa)
    }


NODE = layout_of(detail())
EVERYTHING = cpuset("0-15")


def given(policy, free, *wanted, layout=NODE):
    """The CPUs of each container as text, or the number of the container that gets none."""
    answer = assign(layout, policy, cpuset(free), wanted)
    return answer.failed if answer.failed is not None else [cpuset_text(cpus) for cpus in answer.cpus]


# ------------------------------------------------------------------------------------------------- sets


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5", "0-63,128-191"])
def test_a_set_is_written_as_it_was_read(text):
    assert cpuset_text(cpuset(text)) == text


@pytest.mark.parametrize("text", ["x", "3-1", "-1", "1-", "99999999999", "0-99999999999", "0x3", "\u0663"])
def test_what_is_no_set_of_cpus_counts_for_nothing(text):
    assert cpuset(text) == 0


def test_blanks_and_broken_parts_do_not_spoil_the_rest():
    assert cpuset(" 0-1, x ,4") == 0b10011


# ------------------------------------------------------------------------------------------------- taking


def taken(free, count, layout=NODE):
    cpus = layout.take(cpuset(free), count)
    return None if cpus is None else cpuset_text(cpus)


def test_a_whole_socket_goes_to_whom_it_suits():
    assert taken("0-15", 8) == "0-7"
    assert taken("1-15", 8) == "8-15"


def test_whole_cores_come_before_halves():
    assert taken("0-7", 4) == "0-3"
    assert taken("0,2-7", 2) == "2-3"


def test_single_threads_come_from_broken_cores_first():
    assert taken("0,2-7", 1) == "0"
    assert taken("0,2-7", 3) == "0,2-3"


def test_cpus_come_from_the_numa_node_with_least_to_spare():
    assert taken("0-7,12-15", 2) == "12-13"


def test_what_does_not_fit_one_numa_node_goes_on_where_it_began():
    assert taken("0-15", 10) == "0-9"


def test_too_few_free_cpus_are_none():
    assert taken("0-3", 5) is None


def test_numa_nodes_within_a_socket_are_taken_whole():
    layout = layout_of(detail(numa=4, numa_per_socket=2))
    assert taken("0-31", 8, layout) == "0-7"
    assert taken("0-31", 16, layout) == "0-15"
    assert taken("4-31", 8, layout) == "8-15"


# ------------------------------------------------------------------------------------------------- policies


@pytest.mark.parametrize("policy", [BEST_EFFORT, RESTRICTED, SINGLE])
def test_a_container_that_fits_one_numa_node_gets_one(policy):
    assert given(policy, "0-15", 6) == ["0-5"]
    assert given(policy, "4-15", 6) == ["8-13"]


def test_only_best_effort_spreads_what_one_numa_node_could_hold():
    assert given(BEST_EFFORT, "4-7,12-15", 6) == ["4-7,12-13"]
    assert given(RESTRICTED, "4-7,12-15", 6) == 0
    assert given(SINGLE, "4-7,12-15", 6) == 0


def test_restricted_spreads_what_no_numa_node_could_hold():
    assert given(RESTRICTED, "0-15", 10) == ["0-9"]
    assert given(SINGLE, "0-15", 10) == 0


def test_no_policy_gives_more_than_there_is():
    for policy in (NONE, BEST_EFFORT, RESTRICTED, SINGLE):
        assert given(policy, "0-3", 5) == 0


def test_without_a_policy_any_free_cpus_will_do():
    assert given(NONE, "6-9", 4) == ["6-9"]


def test_containers_get_cpus_one_after_the_other():
    assert given(SINGLE, "0-15", 4, 6, 2) == ["0-3", "8-13", "4-5"]
    assert given(SINGLE, "0-15", 6, 6, 4) == 2


def test_a_container_that_shares_cpus_gets_none_of_its_own():
    assert given(SINGLE, "0-15", 0, 2) == ["", "0-1"]


def test_the_spread_counts_numa_nodes():
    assert assign(NODE, BEST_EFFORT, EVERYTHING, (4,)).spread == 1
    assert assign(NODE, BEST_EFFORT, EVERYTHING, (10,)).spread == 2
    assert assign(NODE, BEST_EFFORT, EVERYTHING, (6, 6)).spread == 2


def test_the_numa_nodes_with_the_lowest_numbers_are_chosen_among_equally_few():
    layout = layout_of(detail(numa=4))
    assert given(RESTRICTED, "0-31", 12, layout=layout) == ["0-11"]
    assert given(RESTRICTED, "1-31", 16, layout=layout) == ["8-23"]


def test_equal_nodes_have_one_layout():
    assert layout_of(detail()) is layout_of(dict(reversed(detail().items())))


def test_cpus_with_impossible_names_are_left_out():
    assert layout_of({"0": CpuInfo(), "x": CpuInfo(), "99999": CpuInfo()}).all == 1


def test_a_machine_with_very_many_numa_nodes_is_answered_in_bounded_time():
    layout = layout_of(detail(numa=40, cores=1, threads=1))
    assert given(BEST_EFFORT, ",".join(map(str, range(0, 40, 2))), 20, layout=layout) == [
        ",".join(map(str, range(0, 40, 2)))
    ]
