"""minResources in ResourceQuota's words."""

from pumice.api.decoding import decode_value
from pumice.api.pods import PodSpec
from pumice.controllers import minimums


def usage(**spec):
    return minimums.resource_list(minimums.usage(decode_value(PodSpec, spec)))


def a_container(requests=None, limits=None, **more):
    return {"name": "main", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def test_requests_and_limits_stand_under_the_names_that_quotas_use():
    container = a_container(
        {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}, {"cpu": "2", "memory": "2Gi"}
    )
    assert usage(containers=[container]) == {
        "pods": "1",
        "count/pods": "1",
        "cpu": "1500m",
        "requests.cpu": "1500m",
        "limits.cpu": "2",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "limits.memory": "2Gi",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


def test_a_limit_without_a_request_is_the_request():
    found = usage(containers=[a_container(limits={"nvidia.com/gpu": "8", "cpu": "1"})])
    assert (found["nvidia.com/gpu"], found["requests.nvidia.com/gpu"], found["requests.cpu"]) == ("8", "8", "1")


def test_init_containers_count_where_they_need_more_and_overhead_always():
    found = usage(
        initContainers=[a_container({"cpu": "4"}, {"cpu": "4"})],
        containers=[a_container({"cpu": "1"}, {"cpu": "2"}), a_container({"cpu": "1"}, {"cpu": "3"})],
        overhead={"cpu": "250m", "memory": "64Mi"},
    )
    assert (found["cpu"], found["limits.cpu"]) == ("4250m", "5250m")
    assert found["memory"] == "64Mi"
    assert "limits.memory" not in found


def test_limits_of_the_whole_pod_count():
    found = usage(containers=[a_container()], resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})
    assert (found["cpu"], found["limits.cpu"]) == ("1", "2")


def test_the_same_amount_may_be_written_in_two_ways():
    assert minimums.same({"cpu": "1", "memory": "1Gi"}, {"cpu": "1000m", "memory": 2**30})
    assert not minimums.same({"cpu": "1"}, {"cpu": "2"})
    assert not minimums.same({"cpu": "1"}, {"cpu": "1", "pods": "1"})
