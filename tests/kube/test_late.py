"""What arrives late, on the real API server; the same bodies run on the embedded one."""

from tests.bodies import late
from tests.bodies.late import (
    test_a_pod_that_has_changed_since_it_was_looked_at_is_bound_all_the_same,  # noqa: F401
    test_binds_of_a_dead_leader_are_refused_however_late_they_arrive,  # noqa: F401
    test_room_of_a_bind_that_nobody_has_answered_is_given_to_nobody_else,  # noqa: F401
)
from tests.kube.test_mishaps import place  # noqa: F401


async def test_no_node_is_ever_charged_beyond_what_it_may_hand_out_by_our_decisions(place):  # noqa: F811
    await late.no_node_is_ever_charged_beyond_what_it_has(place, seed=4)
