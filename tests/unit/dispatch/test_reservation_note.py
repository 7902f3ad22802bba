"""pumice.dev/reservation on a PodGroup: written when it is new, off by more than a tenth, or gone."""

import pytest
from tests.unit.scheduling.clusters import DAY, when

from pumice import instant
from pumice.dispatch import reservation_note
from pumice.scheduling.core.decisions import Reserved


def note(seconds, nodes=20):
    return f'{{"time":"{when(seconds)}","nodes":{nodes}}}'


def after(written, seconds, nodes=20, now=0):
    reserved = Reserved(DAY + seconds * instant.SECOND, nodes, DAY)
    return reservation_note.after(written, reserved, DAY + now * instant.SECOND)


def test_it_tells_time_and_nodes_and_goes_with_the_reservation():
    assert after(None, 600) == note(600)
    assert reservation_note.after(note(600), None, DAY) is None


@pytest.mark.parametrize(
    ("seconds", "nodes", "is_new"),
    [(1000, 20, False), (1101, 20, False), (1102, 20, True), (899, 20, False), (898, 20, True), (1000, 22, False), (1000, 23, True)],
)  # fmt: skip
def test_a_tenth_of_the_time_left_and_of_the_nodes_is_no_change(seconds, nodes, is_new):
    written = note(1000)
    assert (after(written, seconds, nodes) != written) is is_new


def test_close_to_its_time_a_second_is_no_change_and_more_is():
    assert after(note(1000), 1001, now=1000) == note(1000)
    assert after(note(1000), 1060, now=1000) == note(1060)


@pytest.mark.parametrize("text", ["", "{}", "soon", '{"time":"soon","nodes":2}'])
def test_what_somebody_else_wrote_is_written_over(text):
    assert after(text, 600) == note(600)
