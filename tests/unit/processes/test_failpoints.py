import signal

import pytest

from pumice.errors import BadInput
from pumice.processes import failpoints


def test_without_the_variable_nothing_happens():
    fail_point = failpoints.from_environment({})
    for step in failpoints.STEPS:
        fail_point(step)


def test_the_process_is_killed_when_the_step_is_reached_for_the_nth_time(monkeypatch):
    killed = []
    monkeypatch.setattr(failpoints.os, "kill", lambda pid, number: killed.append(number))
    fail_point = failpoints.from_environment({"PUMICE_FAIL_POINT": "binding:2"})
    fail_point("assumed")
    fail_point("binding")
    assert killed == []
    fail_point("binding")
    assert killed == [signal.SIGKILL]


@pytest.mark.parametrize("text", ["sleeping:1", "binding:x"])
def test_a_fail_point_that_does_not_exist_is_an_error(text):
    with pytest.raises(BadInput, match="expected one of assumed, binding"):
        failpoints.from_environment({"PUMICE_FAIL_POINT": text})
