"""Who submits: nobody but admission and our controllers can say so."""

import jsonpatch
import pytest
from tests.cases import admission
from tests.unit.webhooks.reviews import CONTROLLERS, group, marked, pod, request

from pumice.api import names
from pumice.webhooks.submitters import GROUPS_CHARS_MAX, WORKLOAD_CONTROLLERS, Subject, Submitters

SUBMITTERS = Submitters([CONTROLLERS])
ALICE = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
BOB = {names.SUBMITTED_BY: "bob", names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
KINDS = [admission.JOB, admission.cron_job(), admission.flow(), group(), pod()]
DEFAULT = Subject(
    "system:serviceaccount:team:default",
    ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"),
)
each_kind = pytest.mark.parametrize("subject", KINDS, ids=lambda subject: subject["kind"])


def annotations(subject):
    return subject["metadata"].get("annotations") or {}


# ------------------------------------------------------------------------------------------------------------ writing


@each_kind
def test_a_new_object_says_who_submitted_it(subject):
    changed = jsonpatch.apply_patch(subject, SUBMITTERS.record_patch(request(subject)))
    assert annotations(changed).items() >= ALICE.items()


@each_kind
def test_saying_it_twice_changes_nothing(subject):
    once = jsonpatch.apply_patch(subject, SUBMITTERS.record_patch(request(subject)))
    assert SUBMITTERS.record_patch(request(once)) == []


def test_other_annotations_stay():
    subject = marked(admission.JOB, note="x")
    changed = jsonpatch.apply_patch(subject, SUBMITTERS.record_patch(request(subject)))
    assert annotations(changed)["note"] == "x"


@pytest.mark.parametrize("user", [CONTROLLERS, *sorted(WORKLOAD_CONTROLLERS)])
def test_controllers_are_nobodys_submitters(user):
    assert SUBMITTERS.record_patch(request(pod(), user=user)) == []


def test_an_update_that_leaves_the_record_out_gets_it_back():
    old, new = marked(admission.JOB, **ALICE), admission.JOB
    changed = jsonpatch.apply_patch(new, SUBMITTERS.record_patch(request(new, old=old, user="bob")))
    assert annotations(changed) == ALICE


def test_an_update_of_an_object_without_a_record_gets_none():
    assert SUBMITTERS.record_patch(request(admission.JOB, old=admission.JOB)) == []


# ------------------------------------------------------------------------------------------------------------ forging


@each_kind
def test_nobody_submits_under_anothers_name(subject):
    problem = SUBMITTERS.forgery(request(marked(subject, **BOB)))
    assert "alice" in problem
    assert "'bob'" in problem


@each_kind
def test_nobody_submits_with_anothers_groups(subject):
    forged = {**ALICE, names.SUBMITTER_GROUPS: "system:masters"}
    assert SUBMITTERS.forgery(request(marked(subject, **forged)))


@each_kind
def test_everybody_may_submit_under_their_own_name(subject):
    assert SUBMITTERS.forgery(request(marked(subject, **ALICE))) == ""
    assert SUBMITTERS.forgery(request(subject)) == ""


@each_kind
@pytest.mark.parametrize(
    ("before", "after"), [(ALICE, BOB), (ALICE, {}), ({}, ALICE)], ids=["changed", "removed", "added"]
)
def test_nobody_changes_a_record(subject, before, after):
    update = request(marked(subject, **after), old=marked(subject, **before))
    assert "may not change it" in SUBMITTERS.forgery(update)


@each_kind
def test_updates_that_leave_the_record_alone_are_fine(subject):
    update = request(marked(subject, **BOB, note="x"), old=marked(subject, **BOB))
    assert SUBMITTERS.forgery(update) == ""


def test_our_controllers_hand_records_on():
    assert SUBMITTERS.forgery(request(marked(pod(), **BOB), user=CONTROLLERS)) == ""


def test_a_workloads_template_cannot_name_a_submitter_not_even_its_controller():
    user = "system:serviceaccount:kube-system:replicaset-controller"
    forged = {names.SUBMITTED_BY: user, names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
    assert SUBMITTERS.forgery(request(marked(pod(), **forged), user=user))


def test_an_account_of_the_same_name_elsewhere_is_not_trusted():
    user = "system:serviceaccount:team:pumice-controllers"
    assert SUBMITTERS.forgery(request(marked(pod(), **BOB), user=user))


def test_groups_that_no_annotation_can_hold_are_refused():
    groups = tuple(f"{number:01000}" for number in range(GROUPS_CHARS_MAX // 1000 + 1))
    assert "fewer groups" in SUBMITTERS.forgery(request(admission.JOB, groups=groups))


# ------------------------------------------------------------------------------------------------------------ reading


def test_a_person_submits_for_themselves():
    assert SUBMITTERS.submitter(request(admission.JOB)) == Subject("alice", ("blue", "system:authenticated"))


def test_what_our_controllers_make_is_submitted_by_whom_the_record_names():
    made = request(marked(group(), **BOB), user=CONTROLLERS, groups=("system:serviceaccounts",))
    assert SUBMITTERS.submitter(made) == Subject("bob", ("blue", "system:authenticated"))


@pytest.mark.parametrize("user", [CONTROLLERS, *sorted(WORKLOAD_CONTROLLERS)])
def test_what_a_controller_makes_without_a_record_counts_as_the_namespaces_default_account(user):
    assert SUBMITTERS.submitter(request(pod(), user=user)) == DEFAULT


def test_a_subject_reads_as_people_write_it():
    assert str(Subject("alice")) == 'user "alice"'
    assert str(DEFAULT) == 'service account "team/default"'
