"""Who submitted an owner submitted what is made for it."""

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.meta import ObjectMeta
from pumice.controllers.ownership import with_owners_submitter

FORGED = {names.SUBMITTED_BY: "mallory", names.SUBMITTER_GROUPS: "system:masters", "note": "x"}


def owner(**annotations):
    return Job(metadata=ObjectMeta(name="train", namespace="team", annotations=annotations))


def test_the_record_of_the_owner_is_handed_on():
    alice = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
    assert with_owners_submitter(owner(**alice, other="y"), {"note": "x"}) == {**alice, "note": "x"}


def test_a_template_cannot_name_another_submitter():
    alice = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue"}
    assert with_owners_submitter(owner(**alice), FORGED) == {**alice, "note": "x"}


def test_where_the_owner_has_no_record_a_template_cannot_bring_one():
    assert with_owners_submitter(owner(), FORGED) == {"note": "x"}
