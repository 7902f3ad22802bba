"""The webhook configurations: what fails closed, what fails open, and what is never asked about."""

import pytest
from tests.cases import admission
from tests.cases.editing import edited
from tests.unit.webhooks.reviews import CONTROLLERS, command, group, marked, native_group, pod, request

from pumice import cel
from pumice.api import defaults, names
from pumice.webhooks.registration import AccessMode, Registration
from pumice.webhooks.submitters import Submitters

MODES = list(AccessMode)
every_mode = pytest.mark.parametrize("mode", MODES)


def registration(mode=AccessMode.OFF, **more):
    return Registration(namespace="pumice-system", access=mode, controllers=(CONTROLLERS,), **more)


def hooks(mode=AccessMode.OFF, **more):
    return {hook["name"]: hook for each in registration(mode, **more).manifests() for hook in each["webhooks"]}


def asks(hook, review):
    """Whether an API server would ask about it."""
    (rule,) = hook["rules"]
    variables = {"object": review["object"], "oldObject": review["oldObject"], "request": review}
    return review["operation"] in rule["operations"] and all(
        cel.evaluate(condition["expression"], variables) is True for condition in hook.get("matchConditions", ())
    )


def asked(review, mode=AccessMode.OFF, **more):
    """The names of the webhooks that an API server asks, without the domain."""
    plural = review["kind"]["kind"].lower() + "s"
    found = hooks(mode, **more).values()
    return {
        hook["name"].removesuffix(f".{plural}.pumice.dev")
        for hook in found
        if hook["rules"][0]["resources"] == [plural] and asks(hook, review)
    }


@every_mode
def test_only_our_own_kinds_fail_closed_but_for_forged_pods(mode):
    for name, hook in hooks(mode).items():
        is_ours = hook["rules"][0]["apiGroups"][0].endswith(".volcano.sh")
        by_controllers = name.startswith("controllers.")
        if by_controllers:
            assert hook["failurePolicy"] == ("Fail" if mode == AccessMode.ENFORCE else "Ignore"), name
        else:
            assert hook["failurePolicy"] == ("Fail" if is_ours or name.startswith("guard.") else "Ignore"), name


@every_mode
def test_nobody_is_asked_about_kube_system_or_our_own_namespace(mode):
    for name, hook in hooks(mode).items():
        if hook["rules"][0]["scope"] == "Namespaced":
            (expression,) = hook["namespaceSelector"]["matchExpressions"]
            assert expression == {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "pumice-system"],
            }, name
        else:
            assert hook["rules"][0]["resources"] in (["queues"], ["hypernodes"])


@every_mode
def test_every_webhook_answers_soon_has_no_side_effects_and_a_name_of_its_own(mode):
    found = [hook for each in registration(mode).manifests() for hook in each["webhooks"]]
    assert len({hook["name"] for hook in found}) == len(found)
    assert {(hook["timeoutSeconds"], hook["sideEffects"], hook["matchPolicy"]) for hook in found} == {
        (5, "None", "Equivalent")
    }


def test_paths_and_operations_are_volcanos_but_for_defaults_of_updates():
    found = {hook["clientConfig"]["service"]["path"]: hook["rules"][0]["operations"] for hook in hooks().values()}
    assert found == {
        "/jobs/mutate": ["CREATE", "UPDATE"],
        "/jobs/validate": ["CREATE", "UPDATE"],
        "/podgroups/mutate": ["CREATE"],
        "/podgroups/validate": ["CREATE"],
        "/pods/mutate": ["CREATE"],
        "/pods/validate": ["CREATE"],
        "/queues/mutate": ["CREATE", "UPDATE"],
        "/queues/validate": ["CREATE", "DELETE", "UPDATE"],
        "/jobflows/validate": ["CREATE", "UPDATE"],
        "/cronjobs/validate": ["CREATE", "UPDATE"],
        "/hypernodes/validate": ["CREATE", "UPDATE"],
    }


@every_mode
@pytest.mark.parametrize("scheduler", ["default-scheduler", "", "volcanoes"])
def test_pods_of_other_schedulers_are_never_asked_about(mode, scheduler):
    assert asked(request(pod(scheduler)), mode) == set()


@every_mode
@pytest.mark.parametrize("scheduler", ["volcano", "pumice"])
def test_pods_of_ours_are(mode, scheduler):
    assert asked(request(pod(scheduler)), mode) == {"mutate", "validate"}


def test_pods_that_a_resource_group_takes_are_asked_about_whatever_their_scheduler():
    groups = defaults.resource_groups(
        b"resourceGroups: [{resourceGroup: a}, {object: {key: namespace, value: [team]}, schedulerName: volcano},"
        b" {object: {key: annotation, value: ['kind: batch']}}]",
        source="test",
    )
    other = "default-scheduler"
    assert asked(request(pod(other)), groups=groups[:1]) == set()
    assert asked(request(pod(other, **{names.RESOURCE_GROUP: "a"})), groups=groups[:1]) == {"mutate"}
    assert asked(request(pod(other)), groups=groups[1:2]) == {"mutate"}
    assert asked(request(pod(other, kind="batch")), groups=groups[2:]) == {"mutate"}
    assert asked(request(pod(other, kind="web")), groups=groups[2:]) == set()


ALICE = {names.SUBMITTED_BY: "alice", names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
BOB = {names.SUBMITTED_BY: "bob", names.SUBMITTER_GROUPS: "blue\nsystem:authenticated"}
PODS = [
    request(pod()),
    request(pod(**ALICE)),
    request(pod(**BOB)),
    request(pod("default-scheduler", **BOB)),
    request(pod(**{**ALICE, names.SUBMITTER_GROUPS: "system:masters"})),
    request(pod(**BOB), user=CONTROLLERS),
    request(pod(**ALICE), old=pod(**ALICE)),
    request(pod(**ALICE, note="x"), old=pod(**ALICE)),
    request(pod(**BOB), old=pod(**ALICE)),
    request(pod(), old=pod(**ALICE)),
    request(pod(**ALICE), old=pod()),
    request(pod(**ALICE), old=pod(), user=CONTROLLERS),
]


@pytest.mark.parametrize("mode", [AccessMode.WARN, AccessMode.ENFORCE])
@pytest.mark.parametrize("review", PODS)
def test_exactly_the_pods_with_forged_records_are_asked_about_for_sure(mode, review):
    is_forged = bool(Submitters([CONTROLLERS]).forgery(review))
    assert ("guard.validate" in asked(review, mode)) == is_forged


def owned(uid):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    return edited(pod(), {"metadata.ownerReferences": [owner]})


MOVED = [
    (pod(**{names.QUEUE_NAME: "b"}), pod(**{names.QUEUE_NAME: "a"}), "alice", True),
    (pod(**{names.QUEUE_NAME: "b"}), pod(), "alice", True),
    (pod(**{names.GROUP_NAME: "g"}), pod(), "alice", True),
    (pod(**{names.VOLCANO_GROUP_NAME: "g"}), pod(), "alice", True),
    (pod(**{names.GROUP_NAME: "g"}), pod(), CONTROLLERS, False),
    (pod("default-scheduler", **{names.QUEUE_NAME: "b"}), pod("default-scheduler"), "alice", False),
    (pod(note="x"), pod(), "alice", False),
    (pod(), pod(**{names.GROUP_NAME: "g"}), "alice", True),
    (owned("7"), pod(), "alice", True),
    (owned("7"), owned("8"), "alice", True),
    (pod(), owned("7"), "system:serviceaccount:kube-system:generic-garbage-collector", False),
    (edited(owned("7"), {"metadata.ownerReferences[0].controller": False}), pod(), "alice", False),
]


@pytest.mark.parametrize(("new", "old", "user", "wanted"), MOVED)
def test_pods_that_somebody_leads_elsewhere_are_asked_about_for_sure(new, old, user, wanted):
    update = request(new, old=old, user=user)
    assert (asked(update, AccessMode.ENFORCE) == {"guard.validate"}) == wanted
    assert asked(update) == set()


def test_groups_of_our_controllers_do_not_wait_for_the_webhooks_unless_rights_are_enforced():
    by_ours, by_alice = request(group(), user=CONTROLLERS), request(group())
    assert asked(by_ours) == {"controllers.mutate", "controllers.validate"}
    assert asked(by_alice) == {"mutate", "validate"}


def test_a_groups_status_is_nobodys_business():
    old = group()
    new = {**old, "status": {"phase": "Running"}}
    update = request(new, old=old, user="system:serviceaccount:pumice-system:pumice-scheduler")
    assert asked(update) == asked(update, AccessMode.ENFORCE) == set()


GROWN = edited(group(), {"spec.minMember": 5})


@pytest.mark.parametrize("old", [group("other"), group(**ALICE), {**group(), "spec": {}}, GROWN])
def test_a_groups_new_spec_and_a_changed_record_are_asked_about(old):
    assert asked(request(group(), old=old), AccessMode.ENFORCE) == {"mutate", "validate"}


def test_what_our_controllers_change_in_a_group_is_asked_about_where_they_move_it():
    assert asked(request(group(), old=GROWN, user=CONTROLLERS), AccessMode.ENFORCE) == set()
    moved = asked(request(group(), old=group("other"), user=CONTROLLERS), AccessMode.ENFORCE)
    assert moved == {"controllers.mutate", "controllers.validate"}


def test_templates_are_asked_about_where_rights_are():
    template = admission.job_template("a")
    assert asked(request(template)) == set()
    assert asked(request(template), AccessMode.WARN) == {"validate"}
    assert asked(request(template, old=template), AccessMode.ENFORCE) == {"validate"}


def test_a_group_without_a_spec_is_asked_about():
    bare = {key: value for key, value in group().items() if key != "spec"}
    assert asked(request(bare), AccessMode.ENFORCE) == {"mutate", "validate"}
    assert asked(request(bare, old=bare), AccessMode.ENFORCE) == set()


def test_a_record_elsewhere_does_not_make_a_pod_ours():
    review = request(marked(pod("default-scheduler"), **{"example.com/submitted-by": "bob"}))
    assert asked(review, AccessMode.ENFORCE) == set()


def test_a_url_stands_instead_of_the_service():
    found = hooks(url="https://127.0.0.1:9443")["mutate.jobs.pumice.dev"]["clientConfig"]
    assert found == {"url": "https://127.0.0.1:9443/jobs/mutate"}


@pytest.mark.parametrize(("kind", "wanted"), [("Queue", {"validate"}), ("Job", set())])
@pytest.mark.parametrize("mode", [AccessMode.WARN, AccessMode.ENFORCE])
def test_only_commands_to_queues_are_asked_about(kind, wanted, mode):
    assert asked(request(command(kind)), mode) == wanted
    assert asked(request(command(kind), old=command("Job")), mode) == wanted
    assert asked(request(command(kind)), AccessMode.OFF) == set()


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (native_group(), None, False),
        (native_group(**{names.QUEUE_NAME: "q"}), None, True),
        (native_group(**{names.QUEUE_NAME: "q"}), native_group(), True),
        (native_group(**{names.QUEUE_NAME: "q"}), native_group(**{names.QUEUE_NAME: "q"}), False),
        (native_group(), native_group(**{names.QUEUE_NAME: "q"}), False),
    ],
)
def test_native_groups_are_asked_about_only_where_somebody_leads_them_to_a_queue(new, old, wanted):
    hook = hooks(AccessMode.ENFORCE)["guard.validate.podgroups.pumice.dev"]
    assert hook["rules"][0]["apiGroups"] == ["scheduling.k8s.io"]
    assert asks(hook, request(new, old=old)) == wanted
    assert "guard.validate.podgroups.pumice.dev" not in hooks(AccessMode.OFF)
