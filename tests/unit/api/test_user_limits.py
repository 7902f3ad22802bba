"""The limits of users in a queue's annotation."""

import pytest

from pumice.api.user_limits import UserLimits, UserLimitsError, parse_user_limits


def test_counts_and_resources_are_read():
    assert parse_user_limits("running=4, submitted=100,nvidia.com/gpu=8,memory=64Gi") == UserLimits(
        4, 100, {"nvidia.com/gpu": "8", "memory": "64Gi"}
    )
    assert parse_user_limits("cpu=500m") == UserLimits(resources={"cpu": "500m"})


def test_what_a_queue_does_not_say_is_what_the_policy_says():
    own, others = UserLimits(running=2, resources={"cpu": "1"}), UserLimits(5, 7, {"cpu": "9", "memory": "1Gi"})
    assert own.over(others) == UserLimits(2, 7, {"cpu": "1", "memory": "1Gi"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "running",
        "running=",
        "running=-1",
        "running=many",
        "cpu=x",
        "cpu=-1",
        "running=1,running=2",
        "=3",
        "a b=1",
        "gpu=8",
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(UserLimitsError, match="write for example running=4,submitted=100"):
        parse_user_limits(text)


def test_a_text_that_is_too_long_is_refused():
    with pytest.raises(UserLimitsError, match="4096"):
        parse_user_limits(",".join(f"example.com/r{number}=1" for number in range(1000)))
