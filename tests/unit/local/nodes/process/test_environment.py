import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.api import decoding
from pumice.errors import BadInput
from pumice.local.nodes.process import downward, environment
from pumice.local.nodes.process.downward import Facts
from pumice.local.nodes.process.environment import Asking
from pumice.local.nodes.process.podspec import ProcessPod, ResourceFieldSelector
from pumice.local.nodes.process.sources import MissingSource

FACTS = Facts("127.64.0.1", "127.64.0.7", {"cpu": "8", "memory": "16Gi"})


class Sources:
    """Config maps and secrets that are there at once."""

    def __init__(self, config_maps=None, secrets=None):
        self._config_maps = config_maps or {}
        self._secrets = secrets or {}

    async def config_map(self, name, *, optional=False):
        return self._find(self._config_maps, name, optional)

    async def secret(self, name, *, optional=False):
        return self._find(self._secrets, name, optional)

    def _find(self, among, name, optional):
        if name not in among and not optional:
            raise MissingSource(name)
        return among.get(name)


def a_pod(**container):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1", "b": 'say "hi"'}, "annotations": {}}
    spec = {"containers": [{"name": "main", **container}], "nodeName": "n", "serviceAccountName": "robot"}
    return decoding.decode_value(ProcessPod, {"metadata": metadata, "spec": spec})


async def computed(sources=None, given_=None, **container):
    pod = a_pod(**container)
    return await environment.compute(Asking(pod, pod.spec.containers[0], FACTS, sources or Sources()), given_ or {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1ytwoz"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("", ""),
    ],
)
def test_references_are_expanded_as_kubelets_do_it(text, expected):
    assert environment.expand(text, {"A": "1", "B": "two"}) == expected


@given(st.text(alphabet="$AB x", max_size=12))
def test_a_text_without_references_that_are_known_keeps_all_but_doubled_dollars(text):
    assert environment.expand(text, {}) == text.replace("$$", "$")


async def test_a_variable_sees_those_before_it_and_not_those_after():
    env = [{"name": "A", "value": "$(B)1"}, {"name": "B", "value": "$(A)2"}]
    assert await computed(env=env) == {"A": "$(B)1", "B": "$(B)12"}


async def test_later_sources_win_and_variables_win_over_sources():
    sources = Sources({"one": {"A": b"1", "B": b"1", "C": b"1"}}, {"two": {"B": b"2", "C": b"2"}})
    from_ = [{"configMapRef": {"name": "one"}}, {"secretRef": {"name": "two"}}]
    env = await computed(sources, {"A": "given", "D": "given"}, envFrom=from_, env=[{"name": "C", "value": "own"}])
    assert env == {"A": "1", "B": "2", "C": "own", "D": "given"}


async def test_a_name_or_value_that_no_environment_can_hold_is_left_out():
    sources = Sources({"one": {"a=b": b"1", "zero": b"a\0b", "fine": b"1"}})
    assert await computed(sources, envFrom=[{"configMapRef": {"name": "one"}}]) == {"fine": "1"}


async def test_bytes_that_are_no_text_reach_the_process_unchanged():
    sources = Sources(secrets={"key": {"raw": b"\xff\xfe"}})
    env = await computed(sources, env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "key", "key": "raw"}}}])
    assert env["K"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


async def test_a_missing_key_is_named_unless_it_is_optional():
    sources = Sources({"one": {}})
    reference = {"name": "one", "key": "absent"}
    with pytest.raises(MissingSource, match="couldn't find key absent in ConfigMap ns/one"):
        await computed(sources, env=[{"name": "A", "valueFrom": {"configMapKeyRef": reference}}])
    optional = {"configMapKeyRef": reference | {"optional": True}}
    assert await computed(sources, env=[{"name": "A", "valueFrom": optional}]) == {}


async def test_what_is_missing_is_told_without_what_is_secret():
    sources = Sources(secrets={"key": {"token": b"hush"}})
    env = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key", "key": "absent"}}},
    ]
    with pytest.raises(MissingSource) as raised:
        await computed(sources, env=env)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['absent']", ""),
        ("metadata.labels", 'a="1"\nb="say \\"hi\\""'),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "127.64.0.1"),
        ("status.podIP", "127.64.0.7"),
    ],
)
def test_a_pod_may_ask_for_fields_of_itself(path, expected):
    assert downward.field(a_pod(), FACTS, path) == expected


def test_a_field_that_a_pod_may_not_ask_for_is_named():
    with pytest.raises(BadInput, match=r"'spec\.containers' is not one that a pod may ask for"):
        downward.field(a_pod(), FACTS, "spec.containers")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "limits.memory"}, str(2**30)),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.memory", "divisor": "0"}, str(2**30)),
        ({"resource": "requests.memory"}, str(2**30)),
        ({"resource": "limits.ephemeral-storage"}, "0"),
        ({"resource": "limits.nvidia.com/gpu"}, "3"),
    ],
)
def test_a_pod_may_ask_for_its_resources_in_units_rounded_up(selector, expected):
    limits = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "3"}
    pod = a_pod(resources={"limits": limits, "requests": {"cpu": "200m"}})
    asked = decoding.decode_value(ResourceFieldSelector, selector)
    assert downward.resource(pod, pod.spec.containers[0], FACTS, asked) == expected


def test_a_limit_that_was_not_set_is_what_the_node_has():
    pod = a_pod()
    own = pod.spec.containers[0]
    assert downward.resource(pod, own, FACTS, ResourceFieldSelector(resource="limits.cpu")) == "8"
    assert downward.resource(pod, own, FACTS, ResourceFieldSelector(resource="requests.cpu")) == "0"
    with pytest.raises(BadInput, match="there is no container 'other'"):
        downward.resource(pod, own, FACTS, ResourceFieldSelector(resource="limits.cpu", container_name="other"))
    with pytest.raises(BadInput, match=r"'cpu' is neither limits\.<name> nor requests\.<name>"):
        downward.resource(pod, own, FACTS, ResourceFieldSelector(resource="cpu"))
