"""What worlds let pass in the end: gangs that take the same room from one another, however many they are."""

from pumice.sim.worlds.ending import in_rings


def test_gangs_that_take_turns_are_a_ring_of_any_length():
    assert in_rings([("a", "b"), ("b", "a")]) == {"a", "b"}
    assert in_rings([("a", "b"), ("b", "c"), ("c", "a")]) == {"a", "b", "c"}


def test_who_only_left_for_one_of_them_or_for_nobody_is_in_none():
    assert in_rings([("a", "b"), ("b", "a"), ("c", "a"), ("b", "d"), ("d", "")]) == {"a", "b"}
    assert in_rings([("a", "b"), ("b", "c"), ("a", "")]) == set()
