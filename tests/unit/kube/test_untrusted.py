"""Whatever bytes come from a file, a plugin or a server, what goes wrong is one of our errors and says what to do."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube import config, errors, paging
from pumice.kube.exec_auth import ExecConfig, ExecCredentials, PluginPolicy
from pumice.kube.transport import Request
from pumice.kube.watch import Decoder

REQUEST = Request("GET", "/api/v1/pods")

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)


def objects(*keys):
    """JSON in which the keys that matter are likely."""
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(keys) | st.text(max_size=4), inner, max_size=5)
        ),
        max_leaves=12,
    )


def texts(*keys):
    return st.binary(max_size=60) | objects(*keys).map(lambda value: json.dumps(value).encode())


@given(texts("type", "object", "metadata", "name", "spec", "code", "ERROR", "containers", "annotations"))
def test_a_line_of_a_watch(line):
    told = []
    try:
        event = Decoder(Pod, "WATCH", told.append).decode(line)
    except errors.KubeError:
        return
    assert event is not None or told


@given(texts("items", "metadata", "continue", "resourceVersion", "spec"))
def test_a_page_of_a_list(raw):
    try:
        items, version = paging.read_page(Pod, raw, lambda _bad: None)
        more = paging.continue_of(raw)
    except errors.KubeError:
        return
    assert all(isinstance(item, Pod) for item in items)
    assert isinstance(version + more, str)


@given(
    st.integers(400, 599),
    texts("message", "reason", "code", "details", "causes", "retryAfterSeconds"),
    st.text(max_size=5),
)
def test_a_refusal(code, body, retry_after):
    error = errors.from_answer(REQUEST, code, {"retry-after": retry_after}, body)
    assert error.code == code
    assert "; " in str(error)
    assert error.retry_after is None or error.retry_after >= 0


@given(texts("apiVersion", "kind", "status", "token", "clientCertificateData", "expirationTimestamp"))
def test_what_a_plugin_prints(output):
    plugin = ExecConfig(command="login", api_version="client.authentication.k8s.io/v1", interactive_mode="Never")
    made = ExecCredentials(plugin, user="me", policy=PluginPolicy(allowed=True), cluster={}, clock=RealClock())
    with pytest.raises(errors.NoCredentials, match="exec plugin 'login' of user 'me'"):
        made._read(output)


KEYS = [
    *(
        "current-context",
        "clusters",
        "users",
        "contexts",
        "name",
        "cluster",
        "user",
        "context",
        "server",
        "token",
        "exec",
    ),
    *(
        "extensions",
        "proxy-url",
        "certificate-authority-data",
        "client-key",
        "as",
        "as-groups",
        "as-user-extra",
        "command",
    ),
]


@given(st.binary(max_size=80) | objects(*KEYS).map(lambda value: json.dumps(value).encode()))
def test_a_kubeconfig(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "kubeconfig"
    path.write_bytes(text)
    with pytest.raises((errors.BadConfig, errors.NoCredentials)):
        config.find(str(path), clock=RealClock(), env={})


@given(
    objects("server", "certificate-authority-data", "proxy-url", "extensions"),
    objects("token", "exec", "as-user-extra", "tokenFile"),
)
def test_the_inside_of_a_kubeconfig(tmp_path_factory, cluster, user):
    path = tmp_path_factory.getbasetemp() / "kubeconfig"
    entries = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_bytes(msgspec.json.encode(entries))
    try:
        connection = config.find(str(path), clock=RealClock(), env={})
    except (errors.BadConfig, errors.NoCredentials):
        return
    assert connection.server.startswith(("http://", "https://"))
