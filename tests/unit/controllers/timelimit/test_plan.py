"""When a gang is told that its time ends, when it ends, and what is written of it: nothing twice, and nothing too early."""

import json

import msgspec
import pytest

from pumice import instant
from pumice.api import decoding, names
from pumice.api.batch import Job
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.operations import NOTHING_TO_DO, Delete, Emit, Patch
from pumice.controllers.timelimit.plan import View, plan


def at(text):
    return f"2026-03-28T{text}Z"


def moment(text):
    return instant.parse_instant(at(text))


LIMIT = {names.TIME_LIMIT: "2h"}
WARNED = {**LIMIT, names.TIME_LIMIT_WARNING: "10m"}
JOB = Job(metadata=ObjectMeta(name="train", namespace="team", uid="u-job"))


def a_pod(name, started="", *, created="09:00:00", phase="Running", leaving=False, bound="", **annotations):
    metadata = {"name": name, "namespace": "team", "uid": f"u-{name}", "creationTimestamp": at(created)}
    if leaving:
        metadata["deletionTimestamp"] = at("13:00:00")
    status = {"phase": phase, **({"startTime": at(started)} if started else {})}
    if bound:
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]
    return decoding.decode_value(Pod, {"metadata": {**metadata, "annotations": annotations}, "status": status})


def a_group(annotations, minimum=2, *, run=None, conditions=(), owner=None, created="08:00:00", leaving=False):
    metadata = {
        "name": "g",
        "namespace": "team",
        "uid": "u-g",
        "resourceVersion": "5",
        "creationTimestamp": at(created),
        "annotations": {**annotations, **({names.RUN: json.dumps(run)} if run else {})},
        "ownerReferences": [owner] if owner else [],
    }
    if leaving:
        metadata["deletionTimestamp"] = at("13:00:00")
    body = {"metadata": metadata, "spec": {"minMember": minimum}, "status": {"conditions": list(conditions)}}
    return decoding.decode_value(PodGroup, body)


TWO = (a_pod("a", "10:00:00"), a_pod("b", "10:01:00"))


class Told:
    """A plan in the words of a test."""

    def __init__(self, view, now):
        self.plan = plan(view, moment(now))
        self.operations = list(self.plan)

    @property
    def killed(self):
        return sorted(each.name for each in self.operations if isinstance(each, Delete))

    @property
    def events(self):
        return [(type(each.regarding).__name__, each.reason) for each in self.operations if isinstance(each, Emit)]

    @property
    def mark(self):
        return next(each for each in self.operations if isinstance(each, Patch) and each.kind is PodGroup)

    @property
    def run(self):
        text = self.mark.body["metadata"]["annotations"][names.RUN]
        return None if text is None else msgspec.json.decode(text)

    @property
    def conditions(self):
        found = self.mark.body.get("status", {}).get("conditions", ())
        return {each["type"]: each["status"] for each in found}

    @property
    def announced(self):
        patches = [each for each in self.operations if isinstance(each, Patch) and each.kind is Pod]
        return {each.name: each.body["metadata"]["annotations"][names.TIME_LIMIT_ENDS] for each in patches}


def told(group, *pods, now, **more):
    return Told(View(group, pods, **more), now)


# ------------------------------------------------------------------------------------------------------------ waiting


def test_the_start_of_a_gang_of_several_is_written_down_and_its_end_waited_for():
    found = told(a_group(LIMIT), *TWO, now="10:01:01")
    assert found.run == {"started": at("10:01:00")}
    assert found.plan.again_at == moment("12:01:00")
    assert found.mark.version == ""  # an annotation of ours alone: whoever writes the status meanwhile does not matter


def test_a_start_that_is_written_down_is_not_written_again():
    found = told(a_group(LIMIT, run={"started": at("10:01:00")}), *TWO, now="11:00:00")
    assert found.operations == []
    assert found.plan.again_at == moment("12:01:00")


def test_of_a_pod_alone_nothing_is_written_before_its_end():
    found = told(a_group(LIMIT, 1), a_pod("a", "10:00:00"), now="10:30:00")
    assert found.operations == []
    assert found.plan.again_at == moment("12:00:00")


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (a_pod("a", "10:00:00"), a_pod("b")),
        (a_pod("a", "10:00:00", phase="Succeeded"), a_pod("b", "10:00:00", phase="Failed")),
        (a_pod("a", "10:00:00", leaving=True), a_pod("b", "10:00:00", leaving=True)),
    ],
    ids=["no pods", "not whole yet", "over", "leaving"],
)
def test_a_gang_that_has_not_started_or_is_over_has_no_time_to_run_out(pods):
    assert told(a_group(LIMIT), *pods, now="23:00:00").plan == NOTHING_TO_DO


def test_a_group_that_is_going_or_has_no_limit_is_left_alone():
    assert told(a_group({}), *TWO, now="23:00:00").plan == NOTHING_TO_DO
    assert told(a_group(LIMIT, leaving=True), *TWO, now="23:00:00").plan == NOTHING_TO_DO


def test_a_limit_that_makes_no_sense_is_said_and_ignored():
    found = told(a_group({names.TIME_LIMIT: "soon"}), *TWO, now="23:00:00")
    assert found.events == [("PodGroup", "InvalidTimeLimit")]
    assert found.killed == []


def test_a_node_with_a_slow_clock_does_not_shorten_the_time():
    pods = (a_pod("a", "07:00:00", bound="10:00:00"), a_pod("b", "07:00:00", bound="10:00:00"))
    assert told(a_group(LIMIT), *pods, now="10:00:01").plan.again_at == moment("12:00:00")


# ------------------------------------------------------------------------------------------------------------ warning


def test_a_gang_is_told_before_its_end_once():
    found = told(a_group(WARNED), *TWO, now="11:51:00")
    assert found.run == {"started": at("10:01:00"), "warned": at("11:51:00")}
    assert found.conditions == {"TimeLimitWarning": "True"}
    assert found.events == [("PodGroup", "TimeLimitWarning")]
    assert found.killed == []
    assert found.plan.again_at == moment("12:01:00")
    assert found.mark.version == "5"  # the list of conditions is the scheduler's too


def test_a_gang_is_not_told_a_moment_too_early_nor_without_being_asked():
    assert told(a_group(WARNED), *TWO, now="11:50:59").events == []
    assert told(a_group(WARNED), *TWO, now="11:50:59").plan.again_at == moment("11:51:00")
    assert told(a_group(LIMIT), *TWO, now="12:00:59").events == []


WARNING = {"type": "TimeLimitWarning", "status": "True"}


def test_who_was_told_is_not_told_again():
    run = {"started": at("10:01:00"), "warned": at("11:51:00")}
    found = told(a_group(WARNED, run=run, conditions=[WARNING]), *TWO, now="11:55:00")
    assert found.operations == []
    assert found.plan.again_at == moment("12:01:00")


def test_a_condition_that_the_scheduler_has_overwritten_is_written_again_and_nobody_is_told_twice():
    run = {"started": at("10:01:00"), "warned": at("11:51:00")}
    scheduled = {"type": "Scheduled", "status": "True", "reason": "ready"}
    found = told(a_group(WARNED, run=run, conditions=[scheduled]), *TWO, now="11:55:00")
    assert found.conditions == {"Scheduled": "True", "TimeLimitWarning": "True"}
    assert found.events == []


def test_who_gets_more_time_is_told_again_before_the_new_end():
    run = {"started": at("10:01:00"), "warned": at("11:51:00")}
    longer = {names.TIME_LIMIT: "4h", names.TIME_LIMIT_WARNING: "10m"}
    found = told(a_group(longer, run=run, conditions=[WARNING]), *TWO, now="11:55:00")
    assert found.run == {"started": at("10:01:00")}
    assert found.conditions == {"TimeLimitWarning": "False"}
    assert found.plan.again_at == moment("13:51:00")


def test_pods_that_ask_for_a_signal_are_told_the_end():
    asking = {names.TIME_LIMIT_SIGNAL: "SIGUSR1"}
    pods = (a_pod("a", "10:00:00", **asking), a_pod("b", "10:00:00"), a_pod("c", "10:00:00", phase="Failed", **asking))
    found = told(a_group(WARNED), *pods, now="11:51:00")
    assert found.announced == {"a": at("12:00:00")}
    # And those that were forgotten by one who died, but not a second time.
    run = {"started": at("10:00:00"), "warned": at("11:51:00")}
    knowing = a_pod("k", "10:00:00", **asking, **{names.TIME_LIMIT_ENDS: at("12:00:00")})
    again = told(a_group(WARNED, run=run, conditions=[WARNING]), *pods, knowing, now="11:52:00")
    assert again.announced == {"a": at("12:00:00")}


def test_who_comes_too_late_to_warn_ends_the_gang_at_once():
    found = told(a_group(WARNED), *TWO, now="12:30:00")
    assert found.events == [("PodGroup", "TimeLimitExceeded")]
    assert found.conditions == {"TimeLimitExceeded": "True"}


# ---------------------------------------------------------------------------------------------------------------- end


def test_the_group_is_marked_before_its_pods_go():
    waiting, done = a_pod("c"), a_pod("d", "10:30:00", phase="Succeeded")
    found = told(a_group(LIMIT), *TWO, waiting, done, now="12:01:00")
    assert found.run == {"started": at("10:01:00"), "ended": at("12:01:00")}
    assert found.plan.stages[0] == (found.mark,)
    assert found.killed == ["a", "b", "c"]
    assert all(each.uid == f"u-{each.name}" for each in found.operations if isinstance(each, Delete))
    assert found.events == [("PodGroup", "TimeLimitExceeded")]


ENDED = {"started": at("10:01:00"), "ended": at("12:01:00")}
EXCEEDED = {"type": "TimeLimitExceeded", "status": "True"}


def test_whoever_comes_next_ends_what_is_left_and_tells_nobody():
    group = a_group(LIMIT, run=ENDED, conditions=[EXCEEDED])
    found = told(group, a_pod("a", "10:00:00", leaving=True), a_pod("b", "10:01:00"), now="12:02:00")
    assert found.killed == ["b"]
    assert found.events == []


def test_pods_that_are_made_after_the_end_are_another_run_with_all_its_time():
    group = a_group(LIMIT, run=ENDED, conditions=[EXCEEDED])
    young = (a_pod("a", created="12:02:00"), a_pod("b", created="12:02:00"))
    assert told(group, *young, now="12:05:00").plan == NOTHING_TO_DO
    started = (a_pod("a", "12:10:00", created="12:02:00"), a_pod("b", "12:10:00", created="12:02:00"))
    found = told(group, *started, now="12:10:01")
    assert found.run == {"started": at("12:10:00")}
    assert found.conditions == {"TimeLimitExceeded": "False"}
    assert found.plan.again_at == moment("14:10:00")


def test_a_member_that_is_replaced_gives_the_gang_no_more_time():
    group = a_group(LIMIT, run={"started": at("10:01:00")})
    found = told(group, a_pod("a", "10:00:00"), a_pod("c", "11:30:00"), now="12:01:00")
    assert found.killed == ["a", "c"]


def test_a_limit_that_is_taken_away_leaves_nothing_behind():
    run = {"started": at("10:01:00"), "warned": at("11:51:00")}
    found = told(a_group({}, run=run, conditions=[WARNING]), *TWO, now="23:00:00")
    assert found.run is None
    assert found.conditions == {"TimeLimitWarning": "False"}
    assert found.killed == []


def test_the_pod_that_a_group_was_made_for_hears_of_it_too():
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u-a", "controller": True}
    found = told(a_group(LIMIT, 1, owner=owner), a_pod("a", "10:00:00"), now="12:00:00")
    assert found.events == [("PodGroup", "TimeLimitExceeded"), ("Pod", "TimeLimitExceeded")]


# --------------------------------------------------------------------------------------------------------------- jobs

OWNED = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u-job", "controller": True}


def test_the_gang_of_a_job_is_only_marked():
    found = told(a_group(LIMIT, owner=OWNED), *TWO, now="12:01:00", is_jobs=True, job=JOB)
    assert found.run == {"started": at("10:01:00"), "ended": at("12:01:00")}
    assert found.events == [("PodGroup", "TimeLimitExceeded"), ("Job", "TimeLimitExceeded")]
    assert found.killed == []
    again = told(a_group(LIMIT, run=ENDED, conditions=[EXCEEDED], owner=OWNED), *TWO, now="12:02:00", is_jobs=True)
    assert again.plan == NOTHING_TO_DO


def test_pods_of_a_former_attempt_of_the_job_say_nothing_of_this_one():
    """Those that leave slowly, and those that had succeeded before the Job was suspended, have the same group by name."""
    former = a_pod("a", "06:00:00", created="06:00:00", phase="Succeeded")
    found = told(a_group(LIMIT, owner=OWNED), former, *TWO, now="10:01:01", is_jobs=True, job=JOB)
    assert found.run == {"started": at("10:00:00")}  # two members are the minimum: one is done, one more has started
    found = told(a_group(LIMIT, 3, owner=OWNED), former, *TWO, now="10:01:01", is_jobs=True, job=JOB)
    assert found.run == {"started": at("10:01:00")}
    leaving = a_pod("a", "06:00:00", created="06:00:00", leaving=True)
    assert told(a_group(LIMIT, 3, owner=OWNED), leaving, *TWO, now="10:01:01", is_jobs=True).plan == NOTHING_TO_DO


@pytest.mark.parametrize("fraction", ["1.5s", "500ms"])
def test_a_mark_never_lies_before_the_moment_that_it_marks(fraction):
    group = a_group({names.TIME_LIMIT: "1h", names.TIME_LIMIT_WARNING: fraction})
    warns = moment("11:01:00") - instant.parse_duration(fraction)
    first = plan(View(group, TWO), warns)
    mark = next(each for each in first if isinstance(each, Patch))
    marked = a_group(group.metadata.annotations, run=json.loads(mark.body["metadata"]["annotations"][names.RUN]))
    assert not [each for each in plan(View(marked, TWO), warns) if isinstance(each, Emit)]
