"""Properties run in short rounds by default and in long ones under `make soak`."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

LONGER = 100  # times as many examples in a soak


@pytest.fixture(params=[1, pytest.param(LONGER, marks=pytest.mark.soak)], ids=["short", "long"])
def rounds(request):
    """Runs a property, or a state machine with `steps`, so many times; hypothesis prints what failed and how to repeat it."""

    def run(check, examples, steps=None):
        chosen = settings(
            max_examples=examples * request.param, deadline=None, suppress_health_check=[HealthCheck.too_slow],
            **({} if steps is None else {"stateful_step_count": steps}),
        )  # fmt: skip
        if steps is None:
            chosen(check)()
        else:
            run_state_machine_as_test(check, settings=chosen)

    return run
