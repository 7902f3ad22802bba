"""A memory is a value: what goes in is never changed, and what comes out can be written down."""

import msgspec
import pytest

from pumice.scheduling.core.memory import EMPTY, SLOT_BYTES_MAX, Memory, Slot, UnreadableSlot, decode, encode


class Notes(msgspec.Struct, frozen=True):
    seen: dict[str, int] = {}


NOTES = Slot("notes", Notes, version=2, bytes_max=100)


def test_a_slot_without_a_value_has_its_default():
    assert EMPTY.of(NOTES) == Notes()


def test_what_was_learned_is_in_the_next_memory_and_the_former_one_is_as_it_was():
    first, _ = EMPTY.after([(NOTES, Notes({"a": 1}))])
    second, _ = first.after([(NOTES, Notes({"a": 2}))])
    assert [each.of(NOTES).seen for each in (EMPTY, first, second)] == [{}, {"a": 1}, {"a": 2}]


def test_where_nothing_was_learned_the_memory_is_the_same_object():
    first, _ = EMPTY.after([(NOTES, Notes({"a": 1}))])
    assert first.after([(NOTES, Notes({"a": 1}))])[0] is first


def test_a_value_beyond_the_bound_is_refused_and_the_last_one_stays():
    first, _ = EMPTY.after([(NOTES, Notes({"a": 1}))])
    second, refused = first.after([(NOTES, Notes({"a" * 100: 1}))])
    assert second is first
    assert refused == {"notes": "the new value has 137 bytes and may have 100; the last one stays"}


def test_a_value_that_cannot_be_written_down_is_refused_and_the_last_one_stays():
    """It ended all scheduling: a plugin from outside may return anything."""
    first, _ = EMPTY.after([(NOTES, Notes({"a": 1}))])
    second, refused = first.after([(NOTES, Notes({"a": print}))])
    assert second is first
    assert refused["notes"].startswith("the new value is no plain data: ")


def test_equal_values_have_equal_bytes_whatever_order_they_were_made_in():
    assert NOTES.encode(Notes({"a": 1, "b": 2})) == NOTES.encode(Notes({"b": 2, "a": 1}))


def test_what_was_encoded_can_be_decoded():
    memory = Memory({"notes": Notes({"a": 1})})
    assert decode(encode(memory, [NOTES]), [NOTES]) == memory


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"version":1,"value":{"seen":{}}}', "it has version 1, and this program reads 2"),
        (b'{"version":2,"value":{"seen":7}}', "not what this slot holds: Expected `object`, got `int`"),
        (b'{"version":2', "not what this slot holds: Input data was truncated"),
        (b"[" * 100, "not what this slot holds"),
        (b"\xff\xff", "not what this slot holds"),
        (b" " * 101, "101 bytes are more than the 100 that it may have"),
    ],
)
def test_bytes_that_are_no_value_say_why(data, why):
    with pytest.raises(UnreadableSlot, match=why):
        NOTES.decode(data)


def test_a_memory_of_unknown_slots_is_refused():
    with pytest.raises(UnreadableSlot, match="no slot is called notes"):
        decode(b'{"notes":{}}', [])
    with pytest.raises(UnreadableSlot, match="no memory"):
        decode(b"nothing", [])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"name": "My Slot"}, "use lower-case letters"),
        ({"type": msgspec.defstruct("Loose", [])}, "Loose is not frozen"),
        ({"bytes_max": SLOT_BYTES_MAX + 1}, "at most 524288 bytes"),
    ],
)
def test_a_slot_that_could_not_be_kept_is_a_mistake_of_its_author(arguments, why):
    with pytest.raises(AssertionError, match=why):
        Slot(**{"name": "notes", "type": Notes, **arguments})
