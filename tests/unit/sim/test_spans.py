"""Lengths of time in tables and pictures: two units each, so that policies can be compared."""

import pytest

from pumice.sim.spans import span_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0s"), (95.4, "95s"), (119.6, "2m"), (750, "12m30s"), (3599.6, "1h"), (23_310, "6h28m"), (86_399, "24h"),
        (99_600, "27h40m"), (172_829, "48h"), (172_831, "2d"), (1_933_779, "22d9h"), (1_964_840, "22d18h"),
    ],
)  # fmt: skip
def test_a_length_of_time_has_its_two_largest_units(seconds, text):
    assert span_text(seconds) == text
