"""Lists of pod templates in our kinds, as Kubernetes keeps them in pods: entries have keys, and ports a protocol."""

import pytest
from tests.bodies.webhooks import client_of
from tests.cases import admission

from pumice.api import kinds
from pumice.api.core import Namespace
from pumice.kube import errors

JOB = kinds.by_kind("batch.volcano.sh/v1alpha1", "Job")
MAIN = "spec.tasks[0].template.spec.containers[0]"
SPEC = "spec.tasks[0].template.spec"


@pytest.fixture
async def client(transport):
    made = client_of(transport)
    await made.create(Namespace, {"metadata": {"name": admission.NAMESPACE}})
    return made


@pytest.mark.parametrize(
    ("field", "entries"),
    [
        (f"{MAIN}.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        (f"{MAIN}.ports", [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]),
        (f"{MAIN}.volumeMounts", [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a"}]),
        (f"{MAIN}.volumeDevices", [{"name": "a", "devicePath": "/a"}, {"name": "b", "devicePath": "/a"}]),
        (f"{SPEC}.hostAliases", [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]),
        (f"{SPEC}.imagePullSecrets", [{"name": "a"}, {"name": "a"}]),
        (
            f"{SPEC}.topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2,
        ),
    ],
    ids=lambda each: each.rpartition(".")[2] if isinstance(each, str) else "",
)
async def test_entries_of_a_list_are_told_apart_by_their_keys(client, field, entries):
    with pytest.raises(errors.Invalid, match="Duplicate value"):
        await client.create(JOB, admission.job({field: entries}), namespace=admission.NAMESPACE)


async def test_a_port_is_one_of_tcp_and_may_serve_another_protocol_beside_it(client):
    ports = [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]
    made = (await client.create(JOB, admission.job({f"{MAIN}.ports": ports}), namespace=admission.NAMESPACE)).json()
    found = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"]
    assert found == [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
