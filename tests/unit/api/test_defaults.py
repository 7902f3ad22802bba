"""Defaults: what is filled in, and that nothing else is touched."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.manifests import cases as manifests

from pumice.api import defaults, names
from pumice.errors import BadInput


def added(patch):
    """The patch as a mapping of paths to values; every operation adds."""
    assert all(operation["op"] == "add" for operation in patch)
    return {operation["path"]: operation["value"] for operation in patch}


def a_job(**spec):
    return {"metadata": {"name": "j"}, "spec": spec}


FULL = {"queue": "q", "schedulerName": "s", "maxRetry": 1, "minAvailable": 1}
TASK = {"name": "t", "replicas": 3, "minAvailable": 2, "maxRetry": 1, "template": {}}


# ------------------------------------------------------------------------------------------------------------ jobs


def test_an_empty_job_gets_queue_scheduler_and_retries():
    assert added(defaults.job_patch({})) == {
        "/spec": {},
        "/spec/queue": "default",
        "/spec/schedulerName": "volcano",
        "/spec/maxRetry": 3,
    }


def test_the_scheduler_is_the_one_that_serves_this_installation():
    patch = defaults.job_patch(a_job(queue="q", maxRetry=1), scheduler_name="pumice")
    assert added(patch) == {"/spec/schedulerName": "pumice"}


def test_a_complete_job_gets_nothing():
    assert defaults.job_patch(a_job(**FULL, tasks=[TASK])) == []


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"name": None}, {"name": "default1"}),
        ({"name": ""}, {"name": "default1"}),
        ({"maxRetry": 0}, {"maxRetry": 3}),
        ({"maxRetry": None}, {"maxRetry": 3}),
        ({"minAvailable": None}, {"minAvailable": 3}),
        ({"minAvailable": 0}, {}),
        ({"minAvailable": None, "replicas": None}, {"minAvailable": 0}),
        (
            {
                "minAvailable": None,
                "replicas": 6,
                "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2},
            },
            {"minAvailable": 4},
        ),
        (
            {
                "minAvailable": None,
                "replicas": 6,
                "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 0},
            },
            {"minAvailable": 6},
        ),
        ({"template": {"spec": {"hostNetwork": True}}}, {"template/spec/dnsPolicy": "ClusterFirstWithHostNet"}),
        ({"template": {"spec": {"hostNetwork": True, "dnsPolicy": "Default"}}}, {}),
        ({"template": {"spec": {"hostNetwork": False}}}, {}),
    ],
)
def test_a_task_gets_what_it_lacks_and_nothing_else(task, expected):
    patch = defaults.job_patch(a_job(**FULL, tasks=[TASK, TASK | task]))
    assert added(patch) == {f"/spec/tasks/1/{path}": value for path, value in expected.items()}


@pytest.mark.parametrize("given", [None, 0])
def test_a_job_needs_as_many_pods_as_its_tasks_need_together(given):
    tasks = [TASK, TASK | {"minAvailable": None, "replicas": 4}]
    assert added(defaults.job_patch(a_job(**FULL | {"minAvailable": given}, tasks=tasks)))["/spec/minAvailable"] == 6


def test_a_job_whose_tasks_need_nothing_needs_nothing():
    job = a_job(**FULL | {"minAvailable": 0}, tasks=[TASK | {"minAvailable": 0}])
    assert defaults.job_patch(job) == []


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"tensorflow": []}, ["svc"]),
        ({"pytorch": ["--master=m"]}, ["svc"]),
        ({"ray": []}, ["svc"]),
        ({"mpi": []}, ["svc", "ssh"]),
        ({"mpi": [], "ssh": ["--ssh-port=2222"]}, ["svc"]),
        ({"pytorch": [], "svc": ["--disable-network-policy=true"]}, []),
        ({"env": []}, []),
        ({}, []),
        (None, []),
    ],
)
def test_plugins_bring_the_plugins_that_they_need(plugins, expected):
    patch = defaults.job_patch(a_job(**FULL, plugins=plugins, tasks=[TASK]))
    assert added(patch) == {f"/spec/plugins/{name}": [] for name in expected}


@pytest.mark.parametrize(
    ("job", "warning"),
    [
        (a_job(maxRetry=0), "spec.maxRetry: 0 is replaced by 3; write 1"),
        (a_job(minAvailable=0, tasks=[TASK, TASK]), "spec.minAvailable: 0 is replaced by 4"),
        (a_job(tasks=[TASK, TASK | {"maxRetry": 0}]), "spec.tasks[1].maxRetry: 0 is replaced by 3"),
    ],
)
def test_a_zero_that_is_replaced_is_said(job, warning):
    ((path, text),) = defaults.job_warnings(job)
    assert f"{path}: {text}".startswith(warning)


def test_nothing_is_said_about_what_was_not_written():
    assert defaults.job_warnings(a_job(tasks=[{"name": "t", "replicas": 2}])) == []
    assert defaults.job_warnings(a_job(minAvailable=0, tasks=[TASK | {"minAvailable": 0}])) == []


# ------------------------------------------------------------------------------------------- pod groups and queues


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [
        ({"queue": "default"}, {names.QUEUE_NAME: "team"}, {"/spec/queue": "team"}),
        ({"minMember": 2}, {names.QUEUE_NAME: "team"}, {"/spec/queue": "team"}),
        (None, {names.QUEUE_NAME: "team"}, {"/spec": {}, "/spec/queue": "team"}),
        ({"queue": "mine"}, {names.QUEUE_NAME: "team"}, {}),
        ({"queue": "default"}, {names.QUEUE_NAME: "default"}, {}),
        ({"queue": "default"}, {names.QUEUE_NAME: ""}, {}),
        ({"queue": "default"}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_a_pod_group_without_a_queue_gets_the_one_of_its_namespace_and_nothing_else(spec, annotations, expected):
    assert added(defaults.pod_group_patch({"spec": spec}, annotations)) == expected


def hierarchy(path, weights):
    return {"metadata": {"annotations": {names.HIERARCHY: path, names.HIERARCHY_WEIGHTS: weights}}}


READY = {"spec": {"reclaimable": False, "weight": 4}}
ROOTED = {
    "/metadata/annotations/volcano.sh~1hierarchy": "root/eng/prod",
    "/metadata/annotations/volcano.sh~1hierarchy-weights": "1/2/8",
}


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({}, {"/spec": {}, "/spec/reclaimable": True, "/spec/weight": 1}),
        ({"spec": {"weight": 0}}, {"/spec/reclaimable": True, "/spec/weight": 1}),
        (READY, {}),
        (READY | hierarchy("eng/prod", "2/8"), ROOTED),
        (READY | hierarchy("root/eng/prod", "1/2/8"), {}),
        (READY | hierarchy("root", "1"), {}),
        (READY | hierarchy("eng/prod", ""), {}),
        (READY | {"metadata": {"annotations": {names.HIERARCHY: "eng/prod"}}}, {}),
    ],
)
def test_a_queue_gets_what_it_lacks_and_nothing_else(queue, expected):
    assert added(defaults.queue_patch(queue)) == expected


def test_a_hierarchy_that_only_looks_like_the_root_is_put_below_the_root():
    patch = added(defaults.queue_patch(READY | hierarchy("rootbeer/a", "1/1")))
    assert patch["/metadata/annotations/volcano.sh~1hierarchy"] == "root/rootbeer/a"


# ------------------------------------------------------------------------------------------------------------ pods

RULES = """
resourceGroups:
- resourceGroup: management
  object: {key: namespace, value: [mng-ns-1, mng-ns-2]}
  schedulerName: default-scheduler
  tolerations:
  - {effect: NoSchedule, key: taint, operator: Exists}
  labels: {volcano.sh/nodetype: management}
- resourceGroup: cpu
  object: {key: annotation, value: ["volcano.sh/resource-group: cpu", "team: a"]}
  schedulerName: volcano
  labels: {nodetype: cpu}
- resourceGroup: gpu
  schedulerName: volcano
  affinity: '{"nodeAffinity": {}}'
"""


def rules():
    return defaults.resource_groups(RULES, source="admission.conf")


def a_pod(annotations=None, **spec):
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}


def pod_patch(pod, namespace="ns", **options):
    return added(defaults.pod_patch(pod, namespace=namespace, groups=rules(), **options))


def test_a_pod_of_a_named_namespace_gets_all_of_the_group():
    assert pod_patch(a_pod(schedulerName="volcano"), "mng-ns-2") == {
        "/spec/nodeSelector": {"volcano.sh/nodetype": "management"},
        "/spec/tolerations": [{"effect": "NoSchedule", "key": "taint", "operator": "Exists"}],
        "/spec/schedulerName": "default-scheduler",
    }


def test_a_group_adds_to_what_the_pod_has_and_wins_where_they_disagree():
    pod = a_pod(
        nodeSelector={"disk": "ssd", "volcano.sh/nodetype": "mine"},
        tolerations=[{"key": "other", "operator": "Exists"}],
        schedulerName="default-scheduler",
    )
    assert pod_patch(pod, "mng-ns-1") == {
        "/spec/nodeSelector/volcano.sh~1nodetype": "management",
        "/spec/tolerations/-": {"effect": "NoSchedule", "key": "taint", "operator": "Exists"},
    }


@pytest.mark.parametrize("annotations", [{"volcano.sh/resource-group": "cpu"}, {"team": "a"}])
def test_any_one_annotation_of_a_group_suffices(annotations):
    assert pod_patch(a_pod(annotations)) == {
        "/spec/nodeSelector": {"nodetype": "cpu"},
        "/spec/schedulerName": "volcano",
    }


def test_a_group_without_an_object_takes_pods_that_name_it():
    pod = a_pod({"volcano.sh/resource-group": "gpu"}, schedulerName="volcano")
    assert pod_patch(pod) == {"/spec/affinity": {"nodeAffinity": {}}}
    pod["spec"]["affinity"] = {"podAffinity": {}}
    assert pod_patch(pod) == {}


def test_a_pod_of_no_group_is_left_alone():
    assert pod_patch(a_pod({"team": "b"})) == {}
    assert pod_patch({}) == {}


GATED = {"scheduling.volcano.sh/queue-allocation-gate": "true"}
GATE = {"name": "scheduling.volcano.sh/queue-allocation-gate"}


@pytest.mark.parametrize(
    ("pod", "gate", "expected"),
    [
        (a_pod(GATED), True, {"/spec/schedulingGates": [GATE]}),
        (a_pod(GATED, schedulingGates=[{"name": "x"}]), True, {"/spec/schedulingGates/-": GATE}),
        (a_pod(GATED, schedulingGates=[GATE]), True, {}),
        (a_pod(GATED), False, {}),
        (a_pod({"scheduling.volcano.sh/queue-allocation-gate": "false"}), True, {}),
        (a_pod(), True, {}),
    ],
)
def test_a_pod_that_asks_for_it_is_held_until_its_queue_has_room(pod, gate, expected):
    assert pod_patch(pod, queue_gate=gate) == expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("resourceGroup: []", "resourceGroup"),
        ("resourceGroups: [{resourceGroup: a, label: {}}]", "label"),
        ("resourceGroups: [{resourceGroup: a, object: {key: name}}]", "unknown 'name'"),
        ("resourceGroups: [{schedulerName: a}]", "takes no pod"),
        ("resourceGroups: [{resourceGroup: a, affinity: '{'}]", "not a JSON object"),
        ("resourceGroups: 5", "resourceGroups"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_cause(text, cause):
    with pytest.raises(BadInput) as refusal:
        defaults.resource_groups(text, source="admission.conf")
    assert str(refusal.value).startswith("admission.conf: ")
    assert cause in str(refusal.value)


def test_an_empty_file_has_no_groups():
    assert defaults.resource_groups("", source="admission.conf") == ()


# ----------------------------------------------------------------------------------------------------- for all kinds

PATCHES = {
    "Job": defaults.job_patch,
    "Queue": defaults.queue_patch,
    "PodGroup": lambda pod_group: defaults.pod_group_patch(pod_group, {names.QUEUE_NAME: "team"}),
    "Pod": lambda pod: defaults.pod_patch(pod, namespace="mng-ns-1", groups=rules(), queue_gate=True),
}

numbers = st.none() | st.integers(0, 3)
tasks = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | st.sampled_from(["", "a"]),
        "replicas": numbers,
        "minAvailable": numbers,
        "maxRetry": numbers,
        "template": st.none() | st.just({"spec": {"hostNetwork": True, "unknown": [1]}}),
        "partitionPolicy": st.none() | st.fixed_dictionaries({"minPartitions": numbers, "partitionSize": numbers}),
    },
)
annotations = st.dictionaries(
    st.sampled_from([names.HIERARCHY, names.HIERARCHY_WEIGHTS, names.QUEUE_ALLOCATION_GATE, "team"]),
    st.sampled_from(["", "a/b", "root/a", "1/2", "true", "a"]),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.none() | st.sampled_from(["", "default", "q"]),
        "maxRetry": numbers,
        "minAvailable": numbers,
        "weight": numbers,
        "reclaimable": st.none() | st.booleans(),
        "plugins": st.none() | st.dictionaries(st.sampled_from(["mpi", "svc", "ray", "env"]), st.just([])),
        "tasks": st.none() | st.lists(tasks, max_size=3),
        "tolerations": st.none() | st.just([{"key": "k"}]),
        "nodeSelector": st.none() | st.just({"a/b": "c"}),
        "schedulingGates": st.none() | st.just([]),
    },
)
subjects = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"annotations": annotations})}, optional={"spec": specs}
)


@pytest.mark.parametrize("kind", PATCHES)
@given(subject=subjects)
def test_applying_twice_changes_nothing_and_what_was_set_stays(kind, subject):
    before = copy.deepcopy(subject)
    once = defaults.apply_patch(subject, PATCHES[kind](subject))
    assert subject == before, "the object itself is not changed"
    assert PATCHES[kind](once) == []
    for key, value in (subject.get("spec") or {}).items():
        if value not in (None, "", 0, "default", []) and key not in {"tasks", "plugins", "tolerations", "nodeSelector"}:
            assert once["spec"][key] == value


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize(
    "spec", ["text", [], 5, {"tasks": {"a": 1}}, {"tasks": [1, {"template": []}]}, {"plugins": [1]}]
)
def test_what_has_the_wrong_type_is_left_for_the_schema_to_refuse(kind, spec):
    patch = PATCHES[kind]({"spec": spec})
    defaults.apply_patch({"spec": spec}, patch)


@pytest.mark.parametrize(
    "case", [case for case in manifests.valid() if case.object["kind"] == "Job"], ids=lambda c: c.id
)
def test_every_field_of_a_job_survives(case):
    once = defaults.apply_patch(case.object, defaults.job_patch(case.object))
    assert contains(once, case.object)


def contains(whole, part):
    if isinstance(part, dict):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return whole == part or part in (None, 0, "")


# ------------------------------------------------------------------------------------------------------------ updates

# What a person writes, and what admission then fills in: every field that it may.
WRITTEN = {
    "spec": {
        "plugins": {"mpi": []},
        "tasks": [
            {"name": "master", "replicas": 1, "template": {"spec": {"hostNetwork": True, "containers": []}}},
            {"replicas": 3, "template": {"spec": {"containers": []}}},
        ],
    }
}


def stored(job):
    return defaults.apply_patch(job, defaults.job_patch(job))


def applied_again(manifest, old):
    """As `kubectl apply` sends it: fields that nobody wrote stay, lists are those of the manifest."""
    return {"spec": {**old["spec"], **copy.deepcopy(manifest)["spec"]}}


def updated(new, old):
    return defaults.apply_patch(new, defaults.job_update_patch(new, old))


def test_a_manifest_that_is_applied_again_changes_nothing():
    old = stored(copy.deepcopy(WRITTEN))
    for new in (applied_again(WRITTEN, old), copy.deepcopy(WRITTEN)):
        assert updated(new, old) == old


@pytest.mark.parametrize("replicas", [5, 2, 0])
def test_a_manifest_that_is_applied_with_other_replicas_changes_those_alone_and_minimums_that_must_follow(replicas):
    old = stored(copy.deepcopy(WRITTEN))
    manifest = copy.deepcopy(WRITTEN)
    manifest["spec"]["tasks"][1]["replicas"] = replicas
    new = updated(applied_again(manifest, old), old)
    assert new["spec"]["minAvailable"] == min(4, replicas + 1)
    task = {**old["spec"]["tasks"][1], "replicas": replicas, "minAvailable": replicas}
    assert new == {"spec": {**new["spec"], "tasks": [old["spec"]["tasks"][0], task]}}
    assert {**new["spec"], "minAvailable": 4, "tasks": ()} == {**old["spec"], "tasks": ()}


def test_minimums_that_somebody_wrote_stay_as_they_are():
    task = {"name": "w", "replicas": 4, "minAvailable": 2, "maxRetry": 3}
    old = {"spec": {"queue": "q", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3, "tasks": [task]}}
    new = {"spec": {**old["spec"], "tasks": [{**task, "replicas": 1}]}}
    assert defaults.job_update_patch(new, old) == [], "it is refused afterwards"


APPLY = {"operation": "Apply", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    ("metadata", "minimum"),
    [
        ({}, 3),
        ({"annotations": {names.LAST_APPLIED: '{"spec": {"tasks": []}}'}}, 5),
        ({"annotations": {names.LAST_APPLIED: '{"spec": {"minAvailable": 3}}'}}, 3),
        ({"annotations": {names.LAST_APPLIED: "no JSON"}}, 3),
        ({"managedFields": [{**APPLY, "fieldsV1": {"f:spec": {"f:tasks": {}}}}]}, 5),
        ({"managedFields": [{**APPLY, "fieldsV1": {"f:spec": {"f:minAvailable": {}}}}]}, 3),
        ({"managedFields": [{**APPLY, "operation": "Update", "fieldsV1": {"f:spec": {"f:tasks": {}}}}]}, 3),
    ],
    ids=["unknown", "applied", "applied with it", "no JSON", "by the server", "by the server with it", "updated"],
)
def test_a_minimum_that_nobody_applies_is_that_of_all_tasks(metadata, minimum):
    task = {"name": "w", "replicas": 3, "minAvailable": 3, "maxRetry": 3}
    old = {"spec": {"queue": "q", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3, "tasks": [task]}}
    new = {"metadata": metadata, "spec": {**old["spec"], "tasks": [{"name": "w", "replicas": 5, "maxRetry": 3}]}}
    assert updated(new, old)["spec"]["minAvailable"] == minimum


def test_what_nobody_had_filled_in_is_not_filled_in_by_an_update():
    old = {"spec": {"tasks": [{"name": "w", "replicas": 4}]}}
    new = {"spec": {"tasks": [{"name": "w", "replicas": 5}]}}
    assert defaults.job_update_patch(new, old) == []
