"""What arrives late, on the embedded server; the same bodies run on the real one."""

import pytest
from tests.bodies import late, mishaps
from tests.bodies.late import (
    test_a_pod_that_has_changed_since_it_was_looked_at_is_bound_all_the_same,  # noqa: F401
    test_binds_of_a_dead_leader_are_refused_however_late_they_arrive,  # noqa: F401
    test_room_of_a_bind_that_nobody_has_answered_is_given_to_nobody_else,  # noqa: F401
)

from pumice.api.core import Namespace


@pytest.fixture
async def place(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    return mishaps.Place(lambda: client._transport, "team")


@pytest.mark.parametrize("seed", [21, 22, 24])
async def test_no_node_is_ever_charged_beyond_what_it_may_hand_out_by_our_decisions(place, seed):
    done = await late.no_node_is_ever_charged_beyond_what_it_has(place, seed)
    assert sum(done.values()) >= 5, done
