import pytest

from pumice import instant
from pumice.api import decoding
from pumice.clock import RealClock, VirtualClock
from pumice.errors import BadInput
from pumice.local.nodes.process.downward import Facts
from pumice.local.nodes.process.podspec import ProcessPod
from pumice.local.nodes.process.sources import MissingSource
from pumice.local.nodes.process.volumes import PodVolumes, Storage


class Sources:
    def __init__(self, **config_maps):
        self.config_maps = config_maps

    async def config_map(self, name, *, optional=False):
        if name not in self.config_maps and not optional:
            raise MissingSource(f'configmap "{name}" not found')
        return self.config_maps.get(name)


def a_pod(*volumes, mounts=()):
    container = {"name": "main", "volumeMounts": list(mounts)}
    value = {
        "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "1"}},
        "spec": {"containers": [container], "volumes": list(volumes)},
    }
    return decoding.decode_value(ProcessPod, value)


@pytest.fixture
def volumes_of(tmp_path):
    folder, claims, allowed = (tmp_path / name for name in ("pod", "claims", "allowed"))
    for path in (folder, claims, allowed):
        path.mkdir()

    def make(pod, sources=None):
        return PodVolumes(
            pod,
            folder,
            storage=Storage(claims=claims, host_roots=(allowed,)),
            client=None,
            clock=RealClock(),
            sources=sources or Sources(),
            facts=Facts("h", "p", {}),
        )

    make.folder, make.allowed = folder, allowed
    return make


def host_path(path, kind=""):
    return {"name": "v", "hostPath": {"path": str(path), "type": kind}}


@pytest.mark.parametrize("path", ["/etc", "{}/../x", "{}/link", "{}-beside"])
async def test_a_host_path_outside_of_the_roots_is_refused(volumes_of, path):
    (volumes_of.allowed / "link").symlink_to("/etc")
    with pytest.raises(BadInput, match=r"is outside of what this node allows .*; start the node with --host-path-root"):
        await volumes_of(a_pod(host_path(path.format(volumes_of.allowed), "DirectoryOrCreate"))).prepare()


@pytest.mark.parametrize(
    ("kind", "is_made"), [("DirectoryOrCreate", "folder"), ("FileOrCreate", "file"), ("Directory", ""), ("", "")]
)
async def test_a_host_path_is_made_only_where_its_type_says_so(volumes_of, kind, is_made):
    path = volumes_of.allowed / "a" / "b"
    volumes = volumes_of(a_pod(host_path(path, kind)))
    if is_made:
        await volumes.prepare()
        assert (path.is_dir(), path.is_file()) == (is_made == "folder", is_made == "file")
    else:
        with pytest.raises(BadInput, match=rf"is no {kind or 'file or folder'}; make it, or use type"):
            await volumes.prepare()


async def test_a_kind_of_volume_that_is_not_here_is_refused_with_those_that_are(volumes_of):
    with pytest.raises(BadInput, match="volume 'v' is of a kind that process nodes do not have; use emptyDir"):
        await volumes_of(a_pod({"name": "v", "nfs": {"server": "s", "path": "/"}})).prepare()


async def test_items_choose_keys_and_a_missing_one_is_named(volumes_of):
    sources = Sources(c={"a": b"1", "b": b"2"})
    items = [{"key": "b", "path": "deep/b"}]
    await volumes_of(a_pod({"name": "v", "configMap": {"name": "c", "items": items}}), sources).prepare()
    assert (volumes_of.folder / "v" / "deep" / "b").read_text() == "2"
    assert not (volumes_of.folder / "v" / "a").exists()
    missing = {"name": "w", "configMap": {"name": "c", "items": [{"key": "absent", "path": "x"}]}}
    with pytest.raises(MissingSource, match="references non-existent config key: absent"):
        await volumes_of(a_pod(missing), sources).prepare()


async def test_an_optional_source_that_is_missing_is_an_empty_folder_until_it_comes(volumes_of):
    sources = Sources()
    pod = a_pod({"name": "v", "configMap": {"name": "c", "optional": True}})
    volumes = volumes_of(pod, sources)
    await volumes.prepare()
    assert not (volumes_of.folder / "v" / "a").exists()
    sources.config_maps["c"] = {"a": b"1"}
    await volumes.refresh(pod)
    assert (volumes_of.folder / "v" / "a").read_text() == "1"


async def test_a_source_that_goes_away_leaves_its_files(volumes_of):
    sources = Sources(c={"a": b"1"})
    pod = a_pod({"name": "v", "configMap": {"name": "c"}})
    volumes = volumes_of(pod, sources)
    await volumes.prepare()
    sources.config_maps.clear()
    await volumes.refresh(pod)
    assert (volumes_of.folder / "v" / "a").read_text() == "1"


async def test_a_projection_puts_several_sources_into_one_folder(volumes_of):
    sources = Sources(c={"a": b"1"})
    parts = [
        {"configMap": {"name": "c"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    await volumes_of(a_pod({"name": "v", "projected": {"sources": parts}}), sources).prepare()
    assert (volumes_of.folder / "v" / "a").read_text() == "1"
    assert (volumes_of.folder / "v" / "labels").read_text() == 'a="1"'


async def test_a_sub_path_is_made_in_the_volume_and_may_come_from_the_environment(volumes_of):
    mounts = [{"name": "v", "mountPath": "/m", "subPathExpr": "$(POD)/out"}]
    pod = a_pod({"name": "v", "emptyDir": {}}, mounts=mounts)
    volumes = volumes_of(pod)
    await volumes.prepare()
    (mount,) = volumes.mounts(pod.spec.containers[0], {"POD": "p-0"})
    assert mount["source"] == str(volumes_of.folder / "v" / "p-0" / "out")
    assert (volumes_of.folder / "v" / "p-0" / "out").is_dir()
    with pytest.raises(BadInput, match="must lie within"):
        volumes.mounts(pod.spec.containers[0], {"POD": "../.."})


async def test_config_is_mounted_read_only_and_an_empty_dir_is_not(volumes_of):
    pod = a_pod(
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "e", "emptyDir": {}},
        mounts=[{"name": "c", "mountPath": "/c"}, {"name": "e", "mountPath": "/e"}],
    )
    volumes = volumes_of(pod, Sources(c={}))
    await volumes.prepare()
    assert [mount["read_only"] for mount in volumes.mounts(pod.spec.containers[0], {})] == [True, False]


class TokenServer:
    """Gives out tokens that live for ten minutes."""

    def __init__(self, clock):
        self.clock = clock
        self.asked = []

    async def create(self, kind, body, **where):
        self.asked.append((body["spec"], where))
        ends = instant.format_instant(self.clock.now() + 600 * instant.SECOND)
        self.answer = {"status": {"token": f"token-{len(self.asked)}", "expirationTimestamp": ends}}
        return self

    def json(self):
        return self.answer


def test_a_token_is_bound_to_its_pod_and_renewed_when_most_of_its_life_is_over(tmp_path):
    clock = VirtualClock(instant.parse_instant("2026-01-31T12:00:00Z"))
    server = TokenServer(clock)
    source = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
    pod = a_pod({"name": "v", "projected": {"sources": [source]}})
    volumes = PodVolumes(
        pod,
        tmp_path,
        storage=Storage(claims=tmp_path),
        client=server,
        clock=clock,
        sources=Sources(),
        facts=Facts("h", "p", {}),
    )

    async def script():
        await volumes.prepare()
        spec, where = server.asked[0]
        assert (spec["audiences"], spec["expirationSeconds"]) == (["vault"], 600)
        assert (spec["boundObjectRef"]["kind"], spec["boundObjectRef"]["name"]) == ("Pod", "p")
        assert (where["name"], where["subresource"]) == ("default", "token")
        assert volumes.renew_at == pytest.approx(480.0)
        await clock.sleep(479.0)
        await volumes.refresh(pod)
        assert (tmp_path / "v" / "token").read_text() == "token-1"
        await clock.sleep(2.0)
        await volumes.refresh(pod)
        assert (tmp_path / "v" / "token").read_text() == "token-2"
        assert volumes.renew_at == pytest.approx(961.0)

    clock.run(script())
