"""Annotations are their owners' to write: one that is nested deeper than any reader can follow is no reason to fall over."""

import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_node, a_queue, binds, plan_for

from pumice.api import names
from pumice.scheduling.core import builtin

DEEP = '{"x":' + "[" * 60_000 + "]" * 60_000 + "}"  # fits into the 256 KiB that annotations may have
POLICY = builtin.parse(builtin.TEXT, "built-in policy")
READ = sorted(
    value for name, value in vars(names).items()
    if name.isupper() and isinstance(value, str) and ("pumice.dev/" in value or "volcano.sh/" in value)
)  # fmt: skip


@pytest.mark.parametrize("annotation", READ)
def test_a_gang_beside_one_with_a_poisoned_annotation_starts(annotation):
    poisoned = {annotation: DEEP}
    decisions = plan_for(
        a_queue("default"),
        a_node("n1", cpu="8", gpu=8, annotations=poisoned),
        a_gang("poisoned", 1, gpu=1, annotations=poisoned, group={"annotations": poisoned}),
        a_gang("fine", 2, gpu=1),
        policy=POLICY,
        now=NOW,
    )
    assert {"fine-w-0", "fine-w-1"} <= binds(decisions).keys()
