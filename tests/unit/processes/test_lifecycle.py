"""Where a process says that it can be asked."""

import pytest

from pumice.processes import lifecycle


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:0", "http://127.0.0.1:4711"),
        ("0.0.0.0:8080", "http://127.0.0.1:4711"),
        (":8080", "http://127.0.0.1:4711"),
        ("[::]:8080", "http://127.0.0.1:4711"),
        ("192.0.2.7:8080", "http://192.0.2.7:4711"),
    ],
)
def test_a_process_that_is_no_pod_is_asked_at_its_port(monkeypatch, listen, address):
    monkeypatch.delenv("KUBE_POD_NAME", raising=False)
    assert lifecycle.address(listen, 4711) == address


def test_a_pod_is_asked_through_the_api_server(monkeypatch):
    monkeypatch.setenv("KUBE_POD_NAMESPACE", "pumice-system")
    monkeypatch.setenv("KUBE_POD_NAME", "pumice-scheduler-7d4-x2")
    assert lifecycle.address("0.0.0.0:8080", 8080) == "pods/pumice-system/pumice-scheduler-7d4-x2:8080"
