"""Values that are quickly made, and what is found out once."""

import pytest

from pumice.values import Mutable, Value, once


class Place(Value):
    node: str
    slots: int = 1


class Mark(Value, eq=False):
    node: str


class Tally(Mutable):
    pods: int = 0


class Asked:
    def __init__(self):
        self.times = 0

    @once
    def answer(self):
        """What was asked."""
        self.times += 1
        return self.times


def test_a_value_equals_its_like_and_does_not_change():
    assert Place("n1") == Place("n1", 1) != Place("n2")
    assert hash(Place("n1")) == hash(Place("n1"))
    with pytest.raises(AttributeError):
        Place("n1").node = "n2"


def test_where_identity_is_equality_two_of_a_kind_are_two():
    assert len({Mark("n1"), Mark("n1")}) == 2


def test_what_is_mutable_can_be_set_and_is_no_key():
    tally = Tally()
    tally.pods += 2
    assert tally == Tally(2)
    with pytest.raises(TypeError):
        hash(tally)


def test_what_is_found_out_once_is_not_asked_again():
    asked = Asked()
    assert (asked.answer, asked.answer, asked.times) == (1, 1, 1)
    assert Asked.answer.__doc__ == "What was asked."
