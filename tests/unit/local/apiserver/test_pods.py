"""Pods: what they get, what is refused, how they are bound and evicted, what they cost."""

import pytest
from tests.unit.local.apiserver.words import PODS, a_pod


def a_binding(node="n1", **metadata):
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}


def asking(name, **amounts):
    pod = a_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts}
    return pod


async def test_a_pod_gets_what_users_expect_to_see(api):
    pod = await api.create(PODS, a_pod("p"))
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["terminationGracePeriodSeconds"], spec["priority"], spec["serviceAccountName"]) == (30, 0, "default")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_limits_become_requests_where_none_are_given(api):
    pod = a_pod("p")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2, "cpu": "1", "memory": "1Gi"}}
    created = await api.create(PODS, pod)
    assert created["spec"]["containers"][0]["resources"]["requests"] == {
        "nvidia.com/gpu": "2",
        "cpu": "1",
        "memory": "1Gi",
    }
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"name": "A b", "image": "i"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]}, "spec.containers[1].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        (
            {
                "containers": [
                    {"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            "spec.containers[0].resources.requests",
        ),
        (
            {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1.5"}}}]},
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
        (
            {"containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
        ),
    ],
)
async def test_a_pod_that_cannot_run_is_refused_with_the_field(api, change, field):
    answer = await api.create(PODS, a_pod("p", **change))
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)


async def test_of_a_pods_spec_only_a_few_fields_may_change(api):
    await api.create(PODS, a_pod("p"))
    answer = await api.strategic(f"{PODS}/p", {"spec": {"hostNetwork": True}})
    assert (api.status, "pod updates may not change fields" in answer["message"]) == (422, True)
    await api.strategic(f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}})
    assert api.status == 200
    await api.merge(f"{PODS}/p", {"spec": {"tolerations": []}})
    assert api.status == 422


async def test_the_priority_comes_from_the_class(api):
    await api.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
    )
    pod = await api.create(PODS, a_pod("p", priorityClassName="high"))
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    answer = await api.create(PODS, a_pod("q", priorityClassName="none"))
    assert (api.status, "no PriorityClass with name none" in answer["message"]) == (403, True)
    await api.create(PODS, a_pod("r", priorityClassName="high", priority=5))
    assert api.status == 403


async def test_the_default_class_counts_for_pods_that_name_none(api):
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7, "globalDefault": True}
    await api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body | {"metadata": {"name": "usual"}})
    pod = await api.create(PODS, a_pod("p"))
    assert (pod["spec"]["priority"], pod["spec"]["priorityClassName"]) == (7, "usual")


async def test_a_pod_needs_its_service_account(api):
    answer = await api.create(PODS, a_pod("p", serviceAccountName="robot"))
    assert (api.status, 'serviceaccount "robot" not found' in answer["message"]) == (403, True)


async def test_binding_assigns_the_node_and_copies_annotations(api):
    pod = await api.create(PODS, a_pod("p"))
    binding = a_binding(name="p", uid=pod["metadata"]["uid"], annotations={"pumice.dev/attempt": "7"})
    answer = await api.create(f"{PODS}/p/binding", binding)
    assert (api.status, answer["status"]) == (201, "Success")
    bound = await api.get(f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"pumice.dev/attempt": "7"}
    assert [c["type"] for c in bound["status"]["conditions"] if c["status"] == "True"] == ["PodScheduled"]


async def test_the_old_path_of_bindings_works_too(api):
    await api.create(PODS, a_pod("p"))
    await api.create("/api/v1/namespaces/default/bindings", a_binding(name="p"))
    assert (api.status, (await api.get(f"{PODS}/p"))["spec"]["nodeName"]) == (201, "n1")


async def test_a_pod_of_another_life_is_not_bound(api):
    await api.create(PODS, a_pod("p"))
    answer = await api.create(f"{PODS}/p/binding", a_binding(name="p", uid="of-an-earlier-life"))
    assert (api.status, answer["reason"]) == (409, "Conflict")
    assert "nodeName" not in (await api.get(f"{PODS}/p"))["spec"]


async def test_a_pod_is_bound_only_once(api):
    await api.create(PODS, a_pod("p"))
    await api.create(f"{PODS}/p/binding", a_binding("n1", name="p"))
    answer = await api.create(f"{PODS}/p/binding", a_binding("n2", name="p"))
    assert (api.status, 'already assigned to node "n1"' in answer["message"]) == (409, True)


async def test_gated_deleted_and_missing_pods_are_not_bound(api):
    gated = await api.create(PODS, a_pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
    await api.create(f"{PODS}/p/binding", a_binding(name="p"))
    assert api.status == 409
    pod = a_pod("q")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(PODS, pod)
    await api.delete(f"{PODS}/q")
    await api.create(f"{PODS}/q/binding", a_binding(name="q"))
    assert api.status == 409
    await api.create(f"{PODS}/r/binding", a_binding(name="r"))
    assert api.status == 404
    await api.create(f"{PODS}/p/binding", a_binding(node="", name="p"))
    assert api.status == 422


async def ready(api, name):
    pod = await api.create(PODS, a_pod(name, nodeName="n1") | {"metadata": {"name": name, "labels": {"app": "db"}}})
    pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.update(f"{PODS}/{name}/status", pod)


def eviction(name, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body | ({"deleteOptions": options} if options else {})


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def budget(api, **spec):
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    await api.create(BUDGETS, body | {"spec": {"selector": {"matchLabels": {"app": "db"}}} | spec})


async def test_an_eviction_deletes_gracefully_and_marks_why(api):
    await ready(api, "p")
    await api.create(f"{PODS}/p/eviction", eviction("p"))
    pod = await api.get(f"{PODS}/p")
    assert (api.status, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, 30)
    assert [c["reason"] for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"] == [
        "EvictionByEvictionAPI"
    ]


async def test_a_budget_allows_as_many_evictions_as_it_says(api):
    await budget(api, minAvailable=2)
    for name in ("p", "q", "r"):
        await ready(api, name)
    await api.settle()
    status = (await api.get(f"{BUDGETS}/b"))["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["desiredHealthy"]) == (1, 3, 2)
    await api.create(f"{PODS}/p/eviction", eviction("p"))
    assert api.status == 201
    answer = await api.create(f"{PODS}/q/eviction", eviction("q"))
    assert (api.status, answer["reason"], api.headers["retry-after"]) == (429, "TooManyRequests", "10")
    assert "needs 2 healthy pods and has 2 currently" in answer["details"]["causes"][0]["message"]
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/q"))["metadata"]


@pytest.mark.parametrize(
    ("spec", "allowed"), [({"maxUnavailable": 1}, 1), ({"maxUnavailable": "50%"}, 2), ({"minAvailable": "100%"}, 0)]
)
async def test_budgets_count_in_numbers_and_percent(api, spec, allowed):
    for name in ("p", "q", "r"):
        await ready(api, name)
    await budget(api, **spec)
    await api.settle()
    assert (await api.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == allowed


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": "101%"}, 'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'),
        ({"minAvailable": f"{'9' * 5_000}%"}, "must not be greater than 100%"),
        (
            {"minAvailable": "half"},
            'Invalid value: "half": a valid percent string must be a numeric string followed by',
        ),
        ({"minAvailable": "50"}, 'Invalid value: "50": a valid percent string must be a numeric string followed by'),
        ({"minAvailable": "\u0663%"}, "a valid percent string must be a numeric string followed by"),
        ({"minAvailable": "-5%"}, 'Invalid value: "-5%": a valid percent string must be a numeric string followed by'),
        ({"minAvailable": 0, "maxUnavailable": 0}, "minAvailable and maxUnavailable cannot be both set"),
    ],
)
async def test_numbers_that_no_budget_can_have_are_refused(api, spec, says):
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    answer = await api.create(BUDGETS, body | {"spec": spec})
    assert api.status == 422
    assert says in answer["message"]


async def test_an_unbound_pod_may_always_be_evicted(api):
    await budget(api, minAvailable=1)
    await api.create(PODS, a_pod("p") | {"metadata": {"name": "p", "labels": {"app": "db"}}})
    await api.create(f"{PODS}/p/eviction", eviction("p"))
    assert api.status == 201


async def test_an_eviction_respects_preconditions(api):
    await ready(api, "p")
    await api.create(f"{PODS}/p/eviction", eviction("p", preconditions={"uid": "other"}))
    assert api.status == 409


QUOTAS = "/api/v1/namespaces/default/resourcequotas"


async def quota(api, **hard):
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    await api.create(QUOTAS, body)


async def used(api):
    return (await api.get(f"{QUOTAS}/q"))["status"]["used"]


async def test_a_quota_is_exact_to_the_last_pod(api):
    await quota(api, pods="3", **{"requests.cpu": "2"})
    await api.create(PODS, asking("a", cpu="1500m"))
    assert await used(api) == {"pods": "1", "requests.cpu": "1500m"}
    answer = await api.create(PODS, asking("b", cpu="501m"))
    assert api.status == 403
    assert (
        "exceeded quota: q, requested: requests.cpu=501m, used: requests.cpu=1500m, limited: requests.cpu=2"
        in answer["message"]
    )
    await api.create(PODS, asking("b", cpu="500m"))
    assert await used(api) == {"pods": "2", "requests.cpu": "2"}


async def test_a_quota_gets_back_what_ends(api):
    await quota(api, pods="1")
    pod = await api.create(PODS, a_pod("a"))
    await api.create(PODS, a_pod("b"))
    assert api.status == 403
    await api.update(f"{PODS}/a/status", pod | {"status": {"phase": "Succeeded"}})
    assert await used(api) == {"pods": "0"}
    await api.create(PODS, a_pod("b"))
    assert api.status == 201
    await api.delete(f"{PODS}/b")
    assert await used(api) == {"pods": "0"}


async def test_a_quota_on_cpu_makes_pods_say_what_they_want(api):
    await quota(api, cpu="4")
    answer = await api.create(PODS, a_pod("a"))
    assert (api.status, "must specify cpu for: main" in answer["message"]) == (403, True)


async def test_a_quota_that_comes_later_counts_what_is_there(api):
    await api.create(PODS, asking("a", cpu="1"))
    await quota(api, pods="5", **{"count/configmaps": "2"})
    assert await used(api) == {"pods": "1", "count/configmaps": "0"}


async def test_an_object_count_is_limited(api):
    await quota(api, **{"count/configmaps": "1"})
    path = "/api/v1/namespaces/default/configmaps"
    for name, status in (("a", 201), ("b", 403)):
        await api.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        assert api.status == status


async def test_logs_come_from_where_the_node_keeps_them(api, server):
    class Node:
        async def read(self, pod, container, options):
            async def lines():
                yield f"{pod['metadata']['name']} {container} {options.get('tailLines', 'all')}\n".encode()

            return lines()

    await api.create(PODS, a_pod("p"))
    assert await api.get(f"{PODS}/p/log") == b""
    await api.create(PODS, a_pod("r", nodeName="n1"))
    assert b"node n1 is a pretend node" in await api.get(f"{PODS}/r/log")
    server.pods.logs = Node()
    assert await api.get(f"{PODS}/r/log", tailLines="5") == b"r main 5\n"
    followed = await api.get(f"{PODS}/r/log", follow="true")
    assert [chunk async for chunk in followed.stream] == [b"r main all\n"]
    await api.get(f"{PODS}/r/log", container="other")
    assert api.status == 400


async def test_a_service_gets_an_address_of_its_own(api):
    path = "/api/v1/namespaces/default/services"
    body = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    one = await api.create(path, body | {"metadata": {"name": "a"}})
    two = await api.create(path, body | {"metadata": {"name": "b"}})
    headless = await api.create(
        path, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "c"}, "spec": {"clusterIP": "None"}}
    )
    assert one["spec"]["clusterIP"].startswith("10.96.")
    assert one["spec"]["clusterIP"] != two["spec"]["clusterIP"]
    assert headless["spec"]["clusterIPs"] == ["None"]
    assert one["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
