"""Units, and what absence means to each comparison."""

import pytest

from pumice.cluster import amounts

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "250m", 250),
        ("cpu", 2, 2000),
        ("cpu", "1n", 1),  # rounded up: nothing is for free
        ("memory", "1Gi", 2**30),
        ("memory", "1500m", 2),
        ("ephemeral-storage", "1Ki", 1024),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        (GPU, "2", 2000),
        ("pods", "110", 110_000),
    ],
)
def test_an_amount_has_the_unit_of_its_resource(name, text, expected):
    assert amounts.amount(name, text) == expected


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("memory", True),
        ("pods", True),
        ("ephemeral-storage", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-csi-ebs", True),
        (GPU, True),
        ("kubernetes.io/batch-cpu", True),
        ("requests.nvidia.com/gpu", False),
        ("requests.cpu", False),
        ("limits.cpu", False),
        ("count/pods", False),
        ("count/deployments.apps", False),
        ("configmaps", False),
        ("storage", False),
    ],
)
def test_names_of_quotas_are_not_resources(name, counted):
    assert amounts.is_counted(name) is counted


def test_what_is_not_counted_is_left_out():
    assert amounts.read({"cpu": "1", "limits.cpu": "4", "count/pods": "3"}) == {"cpu": 1000}


def test_a_minimum_in_quota_style_counts_its_gpus():
    assert amounts.read_minimum({"cpu": "1", "requests.nvidia.com/gpu": "4", "requests.cpu": "9"}) == {
        "cpu": 1000,
        GPU: 4000,
    }


def test_a_plain_name_wins_over_its_quota_style():
    assert amounts.read_minimum({GPU: "1", "requests.nvidia.com/gpu": "4"}) == {GPU: 1000}


def test_sums_and_differences_keep_every_name():
    total = amounts.sum_of([{"cpu": 1}, {"cpu": 2, GPU: 3}])
    assert total == {"cpu": 3, GPU: 3}
    amounts.add(total, {GPU: 1, "memory": 5}, -2)
    assert total == {"cpu": 3, GPU: 1, "memory": -10}


def test_surplus_is_never_negative_and_absent_on_the_right_is_zero():
    assert amounts.surplus({"cpu": 5, "memory": 1, GPU: 2}, {"cpu": 3, "memory": 4}) == {"cpu": 2, "memory": 0, GPU: 2}


def test_at_least_covers_the_names_of_both():
    assert amounts.at_least({"cpu": 1, GPU: 4}, {"cpu": 3, "memory": 2}) == {"cpu": 3, GPU: 4, "memory": 2}


def test_at_most_covers_the_names_of_the_left_and_absence_is_as_told():
    assert amounts.at_most({"cpu": 5, GPU: 4}, {"cpu": 3}, absent=amounts.UNLIMITED) == {"cpu": 3, GPU: 4}
    assert amounts.at_most({"cpu": 5, GPU: 4}, {"cpu": 3, "memory": 1}, absent=0) == {"cpu": 3, GPU: 0}


def test_asking_for_nothing_but_a_slot_is_asking_for_nothing():
    assert amounts.is_empty({})
    assert amounts.is_empty({"pods": 1000, "cpu": 0})
    assert not amounts.is_empty({GPU: 1})


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({}, {}, True),
        ({"cpu": 2}, {"cpu": 2}, True),
        ({"cpu": 2}, {"cpu": 1.95}, True),  # noise of fractional shares
        ({"cpu": 2}, {"cpu": 1.8}, False),
        ({GPU: 1}, {"cpu": 9}, False),
        ({GPU: 0}, {}, True),
        ({"cpu": 1}, {"cpu": 1, GPU: 0}, True),
        ({"cpu": 0}, {"cpu": -1}, False),  # a node that shrank below what it holds
    ],
)
def test_within_reads_absence_as_zero(left, right, expected):
    assert amounts.within(left, right) is expected


def test_beyond_is_strict_looks_only_at_what_is_asked_and_never_at_pods():
    limit = {"cpu": 1000, "memory": 10}
    assert amounts.beyond({"cpu": 1000.0001}, limit, asked={"cpu": 1}) == ["cpu"]
    assert amounts.beyond({"cpu": 1000}, limit, asked={"cpu": 1}) == []
    assert amounts.beyond({"cpu": 9999, "memory": 1}, limit, asked={"memory": 1}) == []
    assert amounts.beyond({"pods": 9999}, limit, asked={"pods": 1000}) == []
    assert amounts.beyond({GPU: 1}, limit, asked={GPU: 1}) == [GPU]


def test_beyond_names_cpu_and_memory_first():
    over = dict.fromkeys(["a.io/x", "memory", "b.io/y", "cpu"], 2)
    assert amounts.beyond(over, {}, asked=over) == ["cpu", "memory", "a.io/x", "b.io/y"]


def test_something_of_nothing_is_everything():
    assert amounts.share(0, 0) == 0
    assert amounts.share(1, 0) == 1
    assert amounts.share(1, 4) == 0.25


def test_the_dominant_share_is_the_largest_over_what_the_whole_has():
    assert amounts.dominant_share({"cpu": 1, "memory": 3}, {"cpu": 4, "memory": 4}) == 0.75
    assert amounts.dominant_share({GPU: 4}, {"cpu": 4}) == 0
    assert amounts.dominant_share({"cpu": 1}, {}) == 0


def test_names_are_those_of_which_there_is_something():
    assert amounts.names({"cpu": 1, "memory": 0, GPU: 0.05}) == {"cpu"}


def test_amounts_read_well():
    assert amounts.text({GPU: 2000, "memory": 8 * 2**30, "cpu": 1500}) == "cpu 1500m, memory 8Gi, nvidia.com/gpu 2"


@pytest.mark.parametrize(
    "more", [{}, {"cpu": 2, "pods": 9}, {"memory": 5, "cpu": 1, "x/gpu": 0}, {"x/gpu": 1, "cpu": 4}]
)
def test_too_much_is_what_both_together_have_beyond_the_limit(more):
    held, limit = {"cpu": 3, "memory": 1, "pods": 1}, {"cpu": 5, "memory": 5, "pods": 1}
    both = amounts.sum_of([held, more])
    assert amounts.too_much(held, more, limit) == amounts.beyond(both, limit, asked=more)


@pytest.mark.parametrize("each", [{"cpu": 2, "pods": 9}, {"memory": 3, "cpu": 1}, {"cpu": 3, "x/gpu": 0}, {"cpu": 9}])
def test_so_many_times_is_within_the_limit_and_once_more_is_too_much(each):
    held, limit = {"cpu": 1, "memory": 1, "pods": 1}, {"cpu": 8, "memory": 9, "pods": 1}
    times = amounts.times_within(limit, held, each)
    within, beyond = ({name: value * count for name, value in each.items()} for count in (times, times + 1))
    assert not amounts.too_much(held, within, limit)
    assert amounts.too_much(held, beyond, limit)
    assert amounts.times_within(limit, held, {"pods": 9}) == amounts.TIMES_MAX
