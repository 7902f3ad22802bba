import re

from pumice.api import names

KEYS = {name: value for name, value in vars(names).items() if name.isupper() and name != "INHERITED_PREFIX"}
QUALIFIED = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def test_every_key_may_be_a_label_or_an_annotation():
    assert [value for value in KEYS.values() if not QUALIFIED.fullmatch(value)] == []


def test_no_key_has_two_names():
    assert len(set(KEYS.values())) == len(KEYS)


def test_keys_that_scripts_and_integrators_depend_on_are_spelt_as_volcano_spells_them():
    assert names.GROUP_NAME == "scheduling.k8s.io/group-name"
    assert names.TASK_SPEC == "volcano.sh/task-spec"
    assert names.QUEUE_NAME == "scheduling.volcano.sh/queue-name"
    assert names.JOB_QUEUE == "volcano.sh/queue-name"
    assert names.CREATED_BY_JOB_FLOW == "volcano.sh/createdByJobFlow"
    assert names.PREEMPTABLE.startswith(names.INHERITED_PREFIX)
