"""Numbers that somebody wrote as text, also those that Python would rather not read."""

import numpy as np
import pytest

from pumice.api import names
from pumice.api.core import Node
from pumice.api.decoding import decode_value
from pumice.digits import DIGITS_MAX, INT32_MAX, counted, whole_number
from pumice.errors import BadInput
from pumice.local.apiserver import disruption
from pumice.local.nodes import pretend_pods
from pumice.local.nodes.process import logs
from pumice.scheduling.plugins import nodeorder

LONG = "9" * 5_000


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (str(INT32_MAX), INT32_MAX)])
def test_a_whole_number_is_read(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "1e3", "²", "٣", " 1", str(INT32_MAX + 1), "0" * (DIGITS_MAX + 1), LONG]
)
def test_anything_else_is_none(text):
    assert whole_number(text) is None


def test_an_exit_code_of_5000_digits_is_told_like_any_other_that_is_wrong():
    with pytest.raises(BadInput, match="is not a number from 0 to 255"):
        pretend_pods._exit_code(LONG)


def test_a_percentage_of_5000_digits_of_a_disruption_budget_counts_for_nothing():
    assert disruption._pod_count(f"{LONG}%", 10) == 0


def test_a_request_for_5000_digits_of_log_lines_is_refused():
    with pytest.raises(BadInput, match="tailLines '999"):
        logs._count({"tailLines": LONG}, "tailLines")


class Table:
    allocatable = np.zeros((8, 1), dtype=np.int64)
    objects = (decode_value(Node, {"metadata": {"name": "n", "annotations": {names.OVERSUBSCRIPTION_CPU: LONG}}}),)


def test_a_node_that_oversells_5000_digits_of_cpu_is_scored_as_one_that_oversells_nothing():
    assert not nodeorder.real_capacity(Table()).any()


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_one_is_counted_as_one(number, text):
    assert counted(number, "node") == text
