"""Who may do what: deny by default, roles, bindings, tokens, reviews."""

import random

import pytest
from tests.unit.local.apiserver.words import MAPS, PODS, Api, a_map, a_pod

from pumice.local.apiserver.request_parsing import ANONYMOUS, Caller
from pumice.local.apiserver.server import Server, Settings

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANN = Caller("ann", ("team", "system:authenticated"))


def a_role(name, *rules, kind="Role"):
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": list(rules),
    }


def a_rule(verbs, resources, groups="", **more):
    return {"verbs": verbs.split(), "apiGroups": [groups], "resources": resources.split()} | more


def a_binding(name, role, subject, *, kind="RoleBinding", role_kind="Role"):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return body | {"roleRef": reference, "subjects": [subject]}


async def allow(api, rule, subject, namespace="default"):
    await api.create(f"{RBAC}/namespaces/{namespace}/roles", a_role("r", rule))
    await api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", a_binding("b", "r", subject))


async def may(server, caller, verb, path, body=None):
    api = Api(server, caller)
    await api.call(verb, path, body)
    return api.status != 403


async def test_nothing_is_allowed_by_default(server):
    ann = Api(server, ANN)
    answer = await ann.get(PODS)
    assert ann.status == 403
    assert (
        answer["message"]
        == 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"'
    )


@pytest.mark.parametrize(
    ("method", "path"), [("POST", f"{PODS}/p"), ("PUT", PODS), ("TRACE", PODS), ("POST", "/api/v1/pods")]
)
async def test_what_is_never_done_at_a_path_is_told_only_to_who_may(server, api, method, path):
    assert not await may(server, ANONYMOUS, method, path)
    await api.call(method, path)
    assert api.status == 405


async def test_everybody_known_may_discover_and_nobody_else(server):
    assert await may(server, ANN, "GET", "/apis")
    assert not await may(server, ANONYMOUS, "GET", "/apis")
    assert await may(server, ANONYMOUS, "GET", "/healthz")
    assert not await may(server, ANN, "GET", "/metrics")


@pytest.mark.parametrize(
    "subject",
    [{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "team"}],
)
async def test_a_role_counts_in_its_namespace_for_its_verbs(api, server, subject):
    await allow(api, a_rule("get list", "pods"), subject)
    assert await may(server, ANN, "GET", PODS)
    assert not await may(server, ANN, "POST", PODS, a_pod("p"))
    assert not await may(server, ANN, "GET", MAPS)
    assert not await may(server, ANN, "GET", "/api/v1/namespaces/kube-system/pods")
    assert not await may(server, ANN, "GET", "/api/v1/pods")


async def test_a_cluster_binding_counts_everywhere(api, server):
    await api.create(f"{RBAC}/clusterroles", a_role("r", a_rule("list", "pods"), kind="ClusterRole"))
    binding = a_binding("b", "r", {"kind": "User", "name": "ann"}, kind="ClusterRoleBinding", role_kind="ClusterRole")
    await api.create(f"{RBAC}/clusterrolebindings", binding)
    assert await may(server, ANN, "GET", "/api/v1/pods")
    await api.delete(f"{RBAC}/clusterrolebindings/b")
    assert not await may(server, ANN, "GET", "/api/v1/pods")


async def test_a_rule_may_name_objects_and_subresources(api, server):
    await allow(
        api, a_rule("get update", "configmaps pods/status", resourceNames=["a"]), {"kind": "User", "name": "ann"}
    )
    await api.create(MAPS, a_map("a"))
    await api.create(MAPS, a_map("b"))
    assert await may(server, ANN, "GET", f"{MAPS}/a")
    assert not await may(server, ANN, "GET", f"{MAPS}/b")
    assert not await may(server, ANN, "GET", MAPS)
    assert await may(server, ANN, "PUT", f"{PODS}/a/status", a_pod("a"))
    assert not await may(server, ANN, "PUT", f"{PODS}/a", a_pod("a"))


async def test_view_cannot_write_and_edit_can(api, server):
    for name, role in (("v", "view"), ("e", "edit")):
        subject = {"kind": "User", "name": role}
        await api.create(
            f"{RBAC}/namespaces/default/rolebindings", a_binding(name, role, subject, role_kind="ClusterRole")
        )
    viewer, editor = Caller("view"), Caller("edit")
    assert await may(server, viewer, "GET", PODS)
    assert not await may(server, viewer, "POST", PODS, a_pod("p"))
    assert not await may(server, viewer, "GET", "/api/v1/namespaces/default/secrets")
    assert await may(server, editor, "POST", PODS, a_pod("p"))
    assert await may(server, editor, "GET", PODS)
    assert not await may(server, editor, "POST", f"{RBAC}/namespaces/default/roles", a_role("x"))


async def test_a_review_says_what_a_call_would_meet(api, server):
    await allow(api, a_rule("list", "pods"), {"kind": "User", "name": "ann"})
    ann = Api(server, ANN)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, allowed in (("list", True), ("create", False)):
        asked = {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default"}}
        answer = await ann.create(
            path, {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}
        )
        assert (ann.status, answer["status"]["allowed"]) == (201, allowed)


async def test_a_review_about_somebody_else_needs_a_right_of_its_own(api, server):
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    spec = {"user": "ann", "resourceAttributes": {"verb": "list", "resource": "pods"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    assert (await api.create(path, body))["status"]["allowed"] is False
    assert not await may(server, ANN, "POST", path, body)


async def test_rules_and_names_can_be_asked_for(api, server):
    await allow(api, a_rule("list", "pods"), {"kind": "User", "name": "ann"})
    ann = Api(server, ANN)
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
    answer = await ann.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in answer["status"]["resourceRules"]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await ann.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    assert answer["status"]["userInfo"] == {"username": "ann", "groups": ["team", "system:authenticated"]}


ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def a_token(api, **spec):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return (await api.create(f"{ACCOUNTS}/default/token", body))["status"]["token"]


async def test_a_service_account_is_known_by_its_token(api, server):
    caller = server.authenticator.by_token(await a_token(api))
    assert caller.name == "system:serviceaccount:default:default"
    assert caller.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    await allow(api, a_rule("list", "pods"), {"kind": "ServiceAccount", "name": "default", "namespace": "default"})
    assert await may(server, caller, "GET", PODS)


async def test_a_token_ends_with_its_time_and_with_its_account(api, server, clock):
    token = await a_token(api, expirationSeconds=600)
    clock.advance(599)
    assert server.authenticator.by_token(token)
    clock.advance(1)
    assert server.authenticator.by_token(token) is None
    token = await a_token(api)
    await api.delete(f"{ACCOUNTS}/default")
    assert server.authenticator.by_token(token) is None


async def test_a_token_for_somebody_else_or_a_forged_one_is_nobodys(api, server):
    assert server.authenticator.by_token(await a_token(api, audiences=["vault"])) is None
    token = await a_token(api)
    head, body, signature = token.split(".")
    other = (await a_token(api, expirationSeconds=1200)).split(".")[1]
    for forged in (f"{head}.{other}.{signature}", f"{head}.{body}.", "a.b.c", "nonsense", "", "x" * 10_000):
        assert server.authenticator.by_token(forged) is None


async def test_a_token_bound_to_a_pod_ends_with_the_pod(api, server):
    pod = await api.create(PODS, a_pod("p"))
    token = await a_token(api, boundObjectRef={"kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]})
    assert server.authenticator.by_token(token)
    await api.delete(f"{PODS}/p")
    assert server.authenticator.by_token(token) is None


async def test_a_token_review_tells_who(api):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": await a_token(api)}}
    answer = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert (answer["status"]["authenticated"], answer["status"]["user"]["username"]) == (
        True,
        "system:serviceaccount:default:default",
    )


def test_static_tokens_name_their_callers():
    server = Server(Settings(tokens={"secret": ANN}, chance=random.Random(1)))
    assert server.authenticator.by_token("secret") == ANN
    assert server.authenticator.by_token("Secret") is None


def test_a_certificate_names_user_and_groups(server):
    caller = server.authenticator.by_certificate("ann", ("team",))
    assert (caller.name, caller.groups) == ("ann", ("team", "system:authenticated"))


async def test_nobody_hands_out_more_than_he_holds(api, server):
    everything = a_rule("create get", "roles rolebindings", groups="rbac.authorization.k8s.io")
    await api.create(f"{RBAC}/namespaces/default/roles", a_role("granter", everything, a_rule("get", "pods")))
    await api.create(
        f"{RBAC}/namespaces/default/rolebindings", a_binding("b", "granter", {"kind": "User", "name": "ann"})
    )
    ann, bob = Api(server, ANN), {"kind": "User", "name": "bob"}
    await ann.create(f"{RBAC}/namespaces/default/roles", a_role("fine", a_rule("get", "pods")))
    assert ann.status == 201
    answer = await ann.create(f"{RBAC}/namespaces/default/roles", a_role("greedy", a_rule("delete", "pods")))
    assert (ann.status, "permissions not currently held: delete pods" in answer["message"]) == (403, True)
    await ann.create(f"{RBAC}/namespaces/default/rolebindings", a_binding("c", "fine", bob))
    assert ann.status == 201
    await ann.create(
        f"{RBAC}/namespaces/default/rolebindings", a_binding("d", "cluster-admin", bob, role_kind="ClusterRole")
    )
    assert ann.status == 403


async def test_whoever_may_bind_or_escalate_may_hand_out_more(api, server):
    rule = a_rule("create bind escalate", "roles rolebindings", groups="rbac.authorization.k8s.io")
    await allow(api, rule, {"kind": "User", "name": "ann"})
    ann = Api(server, ANN)
    await ann.create(f"{RBAC}/namespaces/default/roles", a_role("greedy", a_rule("delete", "pods")))
    assert ann.status == 201
    await ann.create(
        f"{RBAC}/namespaces/default/rolebindings", a_binding("c", "greedy", {"kind": "User", "name": "bob"})
    )
    assert ann.status == 201
