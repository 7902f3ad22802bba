"""Parts of pictures: round numbers beside axes, and policies that can be told apart."""

import pytest

from pumice.sim.drawing import Ink, marks, marks_of_capacity, powers, times


def texts(found):
    return [text for _, text in found]


@pytest.mark.parametrize(
    ("end_s", "shown"),
    [
        (7, ["0s", "2s", "4s", "6s"]),
        (50_280, ["0s", "4h", "8h", "12h"]),
        (2_693_405, ["0s", "7d", "14d", "21d", "28d"]),
        (1e9, ["0s", "2000d", "4000d", "6000d", "8000d", "10000d"]),
    ],
)
def test_time_has_marks_at_lengths_that_people_count_in_where_they_are(end_s, shown):
    """Quarters of 31 days were 7d19h, and 15d for a half of it."""
    found = times(end_s)
    assert texts(found) == shown
    step = found[1][0] * end_s
    assert [share * end_s for share, _ in found] == pytest.approx([number * step for number in range(len(found))])


@pytest.mark.parametrize(
    ("most", "shown"),
    [(255.2, [0, 50, 100, 150, 200, 250]), (0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]), (6, [0, 1, 2, 3, 4, 5, 6])],
)
def test_amounts_have_marks_at_round_numbers(most, shown):
    assert [float(text) for text in texts(marks(most, "{:.4g}".format))] == shown


@pytest.mark.parametrize(
    ("most", "shown"), [(256, [0, 64, 128, 192, 256]), (259, [0, 50, 100, 150, 200, 259]), (6, range(7)), (1, [0, 1])]
)
def test_a_capacity_is_a_mark_itself(most, shown):
    assert [float(text) for text in texts(marks_of_capacity(most, "{:.0f}".format))] == list(shown)


def test_a_short_logarithmic_axis_has_marks_between_powers_of_ten():
    assert texts(powers(0.31)) == ["1", "2"]
    assert texts(powers(3.2)) == ["1", "10", "100", "1,000"]


def test_more_policies_than_colours_can_be_told_apart():
    """Sixteen, each with and without more nodes."""
    inks = [Ink.of(number) for number in range(32)]
    assert len({(each.colour, each.dash) for each in inks}) == 32
    assert len({each.swatch for each in inks}) == 32
    assert inks[0].dashed == ""
    assert inks[8].colour == inks[0].colour
