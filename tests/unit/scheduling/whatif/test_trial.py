"""What a trial leaves out, and what it must not."""

from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node

from pumice.cluster import edits
from pumice.scheduling.core import builtin
from pumice.scheduling.core.shortcuts import Shortcuts
from pumice.scheduling.whatif.trial import Question, Start, start_of

POLICY = builtin.parse(builtin.TEXT, "built-in policy")


def a_question(*things):
    return Question(a_cluster(*things).snapshot(), POLICY, NOW)


def test_nobody_has_a_turn_after_the_gang_in_question_has_started():
    question = a_question(
        a_node("n0", cpu="8"), *(a_gang(name, 2, created=at, cpu="1") for at, name in enumerate("abc"))
    )
    decisions = question.plan(question.snapshot, shortcuts=Shortcuts(until="default/b"))
    assert [commit.gang for commit in decisions.commits] == ["default/a", "default/b"]
    assert len(question.plan(question.snapshot).commits) == 3


def test_pods_that_a_trial_changes_are_not_taken_for_what_they_were():
    question = a_question(a_node("n0", cpu="8"), a_gang("a", 2, spec={"nodeSelector": {"zone": "a"}}))
    key = "default/a"
    first = question.plan(question.snapshot)
    changed = edits.with_gang(question.snapshot, question.snapshot.gangs[key].spec, _anywhere)
    second = question.plan(changed)
    assert (start_of(question.snapshot, first, key), start_of(changed, second, key)) == (None, Start())


def _anywhere(pod):
    return type(pod)(metadata=pod.metadata, spec=type(pod.spec)(containers=pod.spec.containers))
