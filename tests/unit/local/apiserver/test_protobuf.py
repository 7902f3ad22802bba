"""Kubernetes' protobuf: what Go clients send becomes the JSON that they would have sent."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.local.apiserver.words import MAPS

from pumice.local.apiserver import protobuf

TYPES = {("v1", "ConfigMap"): "core.v1.ConfigMap", ("v1", "Pod"): "core.v1.Pod", ("v1", "Service"): "core.v1.Service"}
TYPES["v1", "Event"] = "core.v1.Event"


def varint(number):
    number %= 2**64
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """One field: a number, a text, bytes, or a list of fields."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, list):
        value = b"".join(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(api_version, kind, *fields):
    return (
        b"k8s\x00"
        + field(1, [field(1, api_version), field(2, kind)])
        + field(2, list(fields))
        + field(3, "")
        + field(4, "")
    )


def read(kind, *fields):
    obj = protobuf.read_object(envelope("v1", kind, *fields), TYPES)
    assert (obj.pop("apiVersion"), obj.pop("kind")) == ("v1", kind)
    return obj


def test_maps_and_texts_are_read_and_empty_texts_are_not_there():
    metadata = [field(1, "a"), field(3, ""), field(11, [field(1, "k"), field(2, "v")])]
    assert read("ConfigMap", field(1, metadata), field(2, [field(1, "x"), field(2, "")])) == {
        "metadata": {"name": "a", "labels": {"k": "v"}},
        "data": {"x": ""},
    }


def test_bytes_become_base64():
    assert read("ConfigMap", field(3, [field(1, "b"), field(2, b"\x00\xff")])) == {"binaryData": {"b": "AP8="}}


def test_what_go_embeds_is_flat_in_json():
    empty_dir = field(2, [])
    volume = field(1, [field(1, "scratch"), field(2, [empty_dir])])
    assert read("Pod", field(2, [volume])) == {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}


def test_a_zero_is_kept_only_where_go_has_a_pointer():
    spec = field(2, [field(4, 0), field(5, 0), field(11, 0)])  # two pointers to integers, and hostNetwork
    assert read("Pod", spec) == {"spec": {"terminationGracePeriodSeconds": 0, "activeDeadlineSeconds": 0}}


def test_negative_numbers_quantities_and_ports_are_read():
    requests = field(2, [field(1, "cpu"), field(2, [field(1, "500m")])])
    container = field(2, [field(1, "c"), field(8, [requests])])
    priority = field(25, -5)
    assert read("Pod", field(2, [container, priority])) == {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}], "priority": -5}
    }
    ports = field(1, [field(3, 80), field(4, [field(1, 1), field(2, 0), field(3, "http")])])
    assert read("Service", field(2, [ports])) == {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}}
    ports = field(1, [field(3, 80), field(4, [field(1, 0), field(2, 8080), field(3, "")])])
    assert read("Service", field(2, [ports])) == {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}


def test_times_are_written_as_json_writes_them():
    event = read(
        "Event", field(6, [field(1, 1_767_323_045), field(2, 0)]), field(10, [field(1, 1_767_323_045), field(2, 5_000)])
    )
    assert event == {"firstTimestamp": "2026-01-02T03:04:05Z", "eventTime": "2026-01-02T03:04:05.000005Z"}
    assert read("Event", field(6, [])) == {}


def test_a_field_from_the_future_is_passed_over():
    unknown = varint(9000 << 3 | 1) + struct.pack("<d", 1.5) + varint(9001 << 3 | 5) + struct.pack("<f", 1.5)
    assert read("ConfigMap", field(1, [field(1, "a")]), unknown) == {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    "body", [b"", b"k8s", b"nonsense", b"k8s\x00\xff", envelope("v1", "Secret"), envelope("v2", "Pod")]
)
def test_what_is_no_object_is_refused(body):
    with pytest.raises(protobuf.ProtobufError):
        protobuf.read_object(body, TYPES)


@given(st.binary(max_size=200), st.sampled_from(["ConfigMap", "Pod", "Event"]))
def test_no_bytes_do_any_harm(raw, kind):
    body = b"k8s\x00" + field(1, [field(1, "v1"), field(2, kind)]) + field(2, raw)
    with contextlib.suppress(ValueError):
        assert protobuf.read_object(body, TYPES)["kind"] == kind


async def test_a_server_takes_protobuf_and_answers_in_json(api):
    body = envelope("v1", "ConfigMap", field(1, [field(1, "a")]), field(2, [field(1, "k"), field(2, "v")]))
    created = await api.create(MAPS, body, media=protobuf.MEDIA_TYPE)
    assert (api.status, created["data"]) == (201, {"k": "v"})
    await api.create(MAPS, body[:-9], media=protobuf.MEDIA_TYPE)
    assert api.status == 400
