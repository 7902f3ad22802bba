"""What a pod asks for, by every way in which it may say so."""

import numpy as np
import pytest
from tests.unit.scheduling.clusters import a_cluster, a_node, an_object

from pumice.api import names
from pumice.cluster.columns import MEMORY_ROW, Axis
from pumice.cluster.requests import request_of

GPU = "nvidia.com/gpu"


def a_container(name="main", **resources):
    return {"name": name, "resources": resources}


def asked(*containers, init=(), status=None, **spec):
    manifest = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
        "status": status or {},
    }
    return request_of(an_object("v1", "Pod", manifest))


def amounts_of(*containers, **pod):
    """Without the pod's slot, which everybody asks for."""
    found = dict(asked(*containers, **pod).amounts)
    assert found.pop("pods") == 1000
    return found


def test_containers_add_up():
    first, second = a_container("a", requests={"cpu": "1", GPU: "1"}), a_container("b", requests={"cpu": "500m"})
    assert amounts_of(first, second) == {"cpu": 1500, GPU: 1000}


def test_a_limit_without_a_request_is_the_request():
    assert amounts_of(a_container(limits={GPU: "2", "cpu": "4"}, requests={"cpu": "1"})) == {GPU: 2000, "cpu": 1000}


def test_zero_is_nothing():
    request = asked(a_container(requests={"cpu": "0"}))
    assert request.amounts == {"pods": 1000}
    assert request.is_best_effort


def test_a_request_of_any_resource_is_an_effort():
    assert not asked(a_container(limits={GPU: "1"})).is_best_effort


def test_initialisation_counts_where_it_is_hungriest():
    init = [a_container("i1", requests={"cpu": "3"}), a_container("i2", requests={"memory": "1Ki"})]
    main = a_container(requests={"cpu": "1", "memory": "4Ki"})
    assert amounts_of(main, init=init) == {"cpu": 3000, "memory": 4096}


def test_a_sidecar_runs_beside_the_containers():
    sidecar = {**a_container("s", requests={"cpu": "1"}), "restartPolicy": "Always"}
    assert amounts_of(a_container(requests={"cpu": "2"}), init=[sidecar]) == {"cpu": 3000}


def test_an_init_container_runs_beside_the_sidecars_that_started_before_it():
    sidecar = {**a_container("s", requests={"cpu": "1"}), "restartPolicy": "Always"}
    init = a_container("i", requests={"cpu": "5"})
    main = a_container(requests={"cpu": "1"})
    assert amounts_of(main, init=[sidecar, init]) == {"cpu": 6000}
    assert amounts_of(main, init=[init, sidecar]) == {"cpu": 5000}


def test_overhead_comes_on_top_also_of_initialisation():
    init = [a_container("i", requests={"cpu": "5"})]
    assert amounts_of(a_container(requests={"cpu": "1"}), init=init, overhead={"cpu": "250m", "memory": "1Ki"}) == {
        "cpu": 5250,
        "memory": 1024,
    }


def test_what_the_whole_pod_asks_for_replaces_the_sum():
    main = a_container(requests={"cpu": "1", "memory": "1Ki", GPU: "1"})
    pod_level = {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}
    assert amounts_of(main, resources=pod_level, overhead={"cpu": "1"}) == {"cpu": 5000, "memory": 1024, GPU: 1000}


def test_a_limit_of_the_whole_pod_does_not_replace_what_containers_request():
    main = a_container(requests={"cpu": "1"})
    assert amounts_of(main, resources={"limits": {"cpu": "8", "memory": "1Ki"}}) == {"cpu": 1000, "memory": 1024}


# ------------------------------------------------------------------------------------------------------ resize in place


def a_status(name, *, allocated=None, requests=None):
    return {"name": name, "allocatedResources": allocated or {}, "resources": {"requests": requests or {}}}


def test_a_container_that_shrinks_holds_its_room_until_the_kubelet_has_taken_it():
    status = {"containerStatuses": [a_status("main", allocated={"cpu": "4"})]}
    assert amounts_of(a_container(requests={"cpu": "1"}), status=status) == {"cpu": 4000}
    status = {"containerStatuses": [a_status("main", allocated={"cpu": "1"}, requests={"cpu": "4"})]}
    assert amounts_of(a_container(requests={"cpu": "1"}), status=status) == {"cpu": 4000}


def test_a_container_that_grows_asks_for_its_new_size_at_once():
    status = {"containerStatuses": [a_status("main", allocated={"cpu": "1"})]}
    assert amounts_of(a_container(requests={"cpu": "4"}), status=status) == {"cpu": 4000}


def test_a_resize_that_the_kubelet_cannot_do_asks_for_nothing_more():
    status = {
        "containerStatuses": [a_status("main", allocated={"cpu": "1"})],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    }
    assert amounts_of(a_container(requests={"cpu": "400"}), status=status) == {"cpu": 1000}


def test_statuses_are_told_apart_by_name_because_kubelets_sort_them():
    worker, agent = a_container("worker", requests={"cpu": "1"}), a_container("agent", requests={"cpu": "2"})
    status = {
        "containerStatuses": [a_status("agent", allocated={"cpu": "2"}), a_status("worker", allocated={"cpu": "1"})]
    }
    assert amounts_of(worker, agent, status=status) == {"cpu": 3000}


def test_a_sidecar_may_be_resized_too():
    sidecar = {**a_container("s", requests={"cpu": "1"}), "restartPolicy": "Always"}
    status = {"initContainerStatuses": [a_status("s", allocated={"cpu": "3"})]}
    assert amounts_of(a_container(requests={"cpu": "1"}), init=[sidecar], status=status) == {"cpu": 4000}


# ------------------------------------------------------------------------------------------------------ identity, scores


def test_equal_requests_are_one_object_however_they_are_written():
    assert asked(a_container(requests={"cpu": "1"})) is asked(a_container(requests={"cpu": "1000m"}))
    assert asked(a_container(requests={"cpu": "1"})) is asked(a_container(limits={"cpu": 1}))
    assert asked(a_container(requests={"cpu": "1"})) is not asked(a_container(requests={"cpu": "2"}))


def test_scores_pretend_that_a_container_without_requests_uses_a_little():
    request = asked(a_container("a"), a_container("b", requests={"cpu": "1"}))
    assert request.scored_cpu_milli == 1100
    assert request.scored_memory_bytes == 2 * 200 * 2**20
    assert request.amounts == {"cpu": 1000, "pods": 1000}


def shape_fits(demand, memory):
    """Whether a node that claims to have so much memory could take the pod."""
    node = a_node(memory=memory, annotations={names.OVERSUBSCRIPTION_MEMORY: "9" * 60})
    return a_cluster(node).snapshot().nodes.allocatable[MEMORY_ROW, 0] >= demand[MEMORY_ROW]


@pytest.mark.parametrize("memory", ["8Ei", "9E", "1e40"])
def test_gigantic_requests_neither_wrap_around_nor_break_the_columns(memory):
    """Whoever may create pods may write this, and with nodeName even onto a node."""
    request = asked(a_container("a", requests={"memory": memory}), a_container("b", requests={"memory": memory}))
    column = Axis().demand(request)
    assert (column * np.int64(2000) >= column).all()
    assert not shape_fits(column, "8Ei")
