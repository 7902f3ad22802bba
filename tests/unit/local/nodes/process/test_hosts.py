import pytest

from pumice.api import decoding
from pumice.api.core import Service
from pumice.local.nodes.process import hosts
from pumice.local.nodes.process.hosts import HostsFile, Peer
from pumice.local.nodes.process.podspec import ProcessPod


def a_pod(**spec):
    return decoding.decode_value(ProcessPod, {"metadata": {"name": "p-0", "namespace": "ns"}, "spec": spec})


def a_service(name, selector=None, **spec):
    value = {"metadata": {"name": name}, "spec": {"clusterIP": "None", "selector": selector or {"app": name}, **spec}}
    return decoding.decode_value(Service, value)


def a_peer(address, hostname="", subdomain="", *, is_ready=True, **labels):
    return Peer(address, hostname, subdomain, labels, is_ready)


def lines_of(path):
    """What a resolver sees: address and names, comments left out."""
    return [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]


def test_a_pod_finds_itself_by_its_name():
    assert hosts.own_lines(a_pod(), "127.64.0.2") == ["127.64.0.2\tp-0\n"]


def test_a_pod_with_a_subdomain_finds_itself_under_all_its_names():
    (line,) = hosts.own_lines(a_pod(hostname="w0", subdomain="gang"), "127.64.0.2")
    assert line.split() == [
        "127.64.0.2",
        "w0.gang.ns.svc.cluster.local",
        "w0.gang.ns.svc",
        "w0.gang.ns",
        "w0.gang",
        "w0",
    ]


def test_aliases_are_kept_as_the_pod_gives_them():
    aliases = [{"ip": "10.1.2.3", "hostnames": ["db", "db.local"]}]
    assert hosts.own_lines(a_pod(hostAliases=aliases), "127.64.0.2")[1:] == ["10.1.2.3\tdb db.local\n"]


def test_peers_with_hostname_and_subdomain_are_found_others_are_not():
    peers = [a_peer("127.64.0.3", "w1", "gang"), a_peer("127.64.0.4", "alone"), a_peer("127.64.0.5")]
    (line,) = hosts.peer_lines("ns", peers, [])
    assert line.split()[0] == "127.64.0.3"
    assert {"w1.gang", "w1.gang.ns.svc.cluster.local"} <= set(line.split())


@pytest.mark.parametrize(
    ("service", "addresses"),
    [
        (a_service("db"), ["127.64.0.3"]),
        (a_service("db", publishNotReadyAddresses=True), ["127.64.0.3", "127.64.0.4"]),
        (a_service("db", clusterIP="10.0.0.1"), []),
        (a_service("db", selector={"app": "other"}), []),
    ],
    ids=["ready pods only", "all pods", "not headless", "another selector"],
)
def test_a_headless_service_leads_to_its_pods(service, addresses):
    peers = [a_peer("127.64.0.3", app="db"), a_peer("127.64.0.4", is_ready=False, app="db")]
    found = hosts.peer_lines("ns", peers, [service])
    assert [line.split()[0] for line in found] == addresses
    assert all({"db", "db.ns", "db.ns.svc"} <= set(line.split()) for line in found)


def test_a_file_keeps_its_identity_and_the_places_of_lines_that_stay(tmp_path):
    path = tmp_path / "hosts"
    file = HostsFile(path, ["127.64.0.2\tme\n"])
    inode = path.stat().st_ino
    file.update(["127.64.0.3\ta\n", "127.64.0.4\tb\n"])
    place = path.read_text().index("127.64.0.4")
    file.update(["127.64.0.4\tb\n", "127.64.0.5\tc\n"])
    file.close()
    assert path.stat().st_ino == inode
    assert path.read_text().index("127.64.0.4") == place
    assert lines_of(path)[2:] == [["127.64.0.2", "me"], ["127.64.0.4", "b"], ["127.64.0.5", "c"]]
    assert lines_of(path)[0] == ["127.0.0.1", "localhost"]


def test_a_file_with_too_many_blanks_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "BLANKED_BYTES_MAX", 100)
    path = tmp_path / "hosts"
    file = HostsFile(path, ["127.64.0.2\tme\n"])
    for number in range(50):
        file.update([f"127.64.0.{number + 3}\tpeer-{number}\n"])
        assert lines_of(path)[2:] == [["127.64.0.2", "me"], [f"127.64.0.{number + 3}", f"peer-{number}"]]
    file.close()
    assert path.stat().st_size < 400


def test_the_pods_own_line_stays_though_it_is_a_peer_too(tmp_path):
    path = tmp_path / "hosts"
    own = "127.64.0.2\tme\n"
    file = HostsFile(path, [own])
    file.update([own])
    file.update([])
    file.close()
    assert lines_of(path)[2:] == [["127.64.0.2", "me"]]
