"""What pods on process nodes find: environment, files, volumes, on any API server."""

import base64
import os
from pathlib import Path

from tests.bodies.gate import a_gate, an_agent, ended, log, python
from tests.bodies.world import World, running

from pumice.api.core import ConfigMap, PersistentVolumeClaim, Secret
from pumice.api.pods import Pod


async def config_and_secrets_are_files_that_follow_their_sources(world: World, folder: Path) -> None:
    program = """
        config = pathlib.Path("/etc/trainer/config")
        print(config.read_text(), oct(config.stat().st_mode & 0o777), sorted(p.name for p in config.parent.glob("[!.]*")))
        secret = pathlib.Path("/var/run/keys/deep/token")
        print(secret.read_bytes(), oct(secret.stat().st_mode & 0o777))
        fixed = pathlib.Path("/opt/fixed.yaml")
        print(fixed.read_text(), pathlib.Path("/podinfo/labels").read_text())
        gate("ready")
        while config.read_text() != "two" or "fast" not in pathlib.Path("/podinfo/labels").read_text():
            time.sleep(0.01)
        print("changed; the single file is still", fixed.read_text())
        try:
            config.write_text("mine")
        except OSError:
            print("and read-only")
    """
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}
    await world.client.create(
        Secret, token | {"data": {"token": base64.b64encode(b"\0\xff").decode()}}, namespace=world.namespace
    )
    await world.config("trainer", config="one", extra="x")
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    items = [{"key": "token", "path": "deep/token", "mode": 0o400}]
    volumes = [
        {"name": "config", "configMap": {"name": "trainer", "defaultMode": 0o640}},
        {"name": "keys", "secret": {"secretName": "keys", "items": items}},
        {"name": "info", "downwardAPI": {"items": [labels]}},
    ]
    mounts = [
        {"name": "config", "mountPath": "/etc/trainer"},
        {"name": "keys", "mountPath": "/var/run/keys"},
        {"name": "config", "mountPath": "/opt/fixed.yaml", "subPath": "config"},
        {"name": "info", "mountPath": "/podinfo"},
    ]
    async with a_gate() as gate, running(an_agent(world, folder, "files")):
        container = python(program, gate=gate, volumeMounts=mounts)
        await world.submit("p", "files", labels={"speed": "slow"}, volumes=volumes, container=container)
        await gate.arrival("ready")
        await world.client.patch(ConfigMap, "trainer", {"data": {"config": "two"}}, namespace=world.namespace)
        await world.client.patch(Pod, "p", {"metadata": {"labels": {"speed": "fast"}}}, namespace=world.namespace)
        await world.phase("p", "Succeeded")
        assert (await log(world, "p")).splitlines() == [
            "one 0o640 ['config', 'extra']",
            "b'\\x00\\xff' 0o400",
            'one speed="slow"',
            "changed; the single file is still one",
            "and read-only",
        ]


async def the_environment_is_what_the_pod_asked_for(world: World, folder: Path) -> None:
    await world.config("settings", rate="0.1", NAME="from-config")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": "p$w"}}
    await world.client.create(Secret, secret, namespace=world.namespace)
    fields = {"POD": "metadata.name", "NODE": "spec.nodeName", "TEAM": "metadata.labels['team']"}
    env = [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": True}}},
        {"name": "GREETING", "value": "$(POD) of $(TEAM), $$(POD), $(NOBODY)"},
    ]
    resources = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}
    program = """
        for name in ("NODE", "CORES", "MIB", "PASSWORD", "RATE", "GREETING", "CFG_NAME"):
            print(name, os.environ[name])
        print("MAYBE" in os.environ, os.getcwd(), sys.argv[1:], sorted(set(os.environ) & {"SECRET_OF_THE_AGENT"}))
    """
    container = python(
        program,
        "--rate=$(RATE)",
        "$(NOBODY)",
        env=env,
        envFrom=[{"prefix": "CFG_", "configMapRef": {"name": "settings"}}],
        resources=resources,
        workingDir="/made/for/this",
    )
    async with running(an_agent(world, folder, "env", capacity={"cpu": "8"})):
        await world.submit("p", "env", labels={"team": "red"}, container=container)
        await world.phase("p", "Succeeded", "Failed")
        assert (await log(world, "p")).splitlines() == [
            "NODE env",
            "CORES 2",
            "MIB 64",
            "PASSWORD p$w",
            "RATE 0.1",
            "GREETING p of red, $(POD), $(NOBODY)",
            "CFG_NAME from-config",
            "False /made/for/this ['--rate=0.1', '$(NOBODY)'] []",
        ]


async def a_pod_waits_for_config_that_is_still_to_come(world: World, folder: Path) -> None:
    env = [{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "rate"}}}]
    volume = {"name": "later", "configMap": {"name": "later"}}
    mounts = [{"name": "later", "mountPath": "/later"}]
    program = "print(os.environ['RATE'], *pathlib.Path('/later').glob('[!.]*'))"

    def waits_for_late(pod):
        state = pod["status"].get("containerStatuses", [{"state": {}}])[0]["state"]
        return state.get("waiting", {}).get("reason") == "CreateContainerConfigError"

    async with running(an_agent(world, folder, "late")):
        container = python(program, env=env, volumeMounts=mounts)
        await world.submit("p", "late", volumes=[volume], container=container)
        await world.config("later", key="x")
        pod = await world.until("p", waits_for_late)
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["message"] == 'configmap "late" not found'
        await world.config("late", rate="5")
        await world.phase("p", "Succeeded")
        assert await log(world, "p") == "5 /later/key\n"


CHECKPOINT = """
    step = pathlib.Path("/checkpoints/step")
    begin = int(step.read_text()) if step.exists() else 0
    print("resumed at", begin)
    for number in range(begin, 6):
        step.write_text(str(number + 1))
        if number == 2 and begin == 0:
            wait("half")
    print("done")
"""


async def a_pod_that_was_evicted_resumes_from_the_checkpoint_on_its_claim(world: World, folder: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "ckpt"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await world.client.create(PersistentVolumeClaim, claim, namespace=world.namespace)
    volumes = [{"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}]
    mounts = [{"name": "ckpt", "mountPath": "/checkpoints"}]
    async with a_gate() as gate, running(an_agent(world, folder, "claims")):
        container = python(CHECKPOINT, gate=gate, volumeMounts=mounts)
        await world.submit("trainer", "claims", volumes=volumes, container=container)
        await gate.arrival("half")
        await world.client.evict("trainer", namespace=world.namespace)
        await world.gone("trainer")
        await world.submit("trainer", "claims", volumes=volumes, container=container)
        await world.phase("trainer", "Succeeded")
        assert await log(world, "trainer") == "resumed at 3\ndone\n"


async def a_host_path_is_used_within_the_allowed_root_and_refused_elsewhere(world: World, folder: Path) -> None:
    allowed = folder / "allowed"
    allowed.mkdir()
    (allowed / "out").symlink_to("/etc")

    def volume(path):
        return [{"name": "v", "hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}]

    container = python("pathlib.Path('/v/hello').write_text('hi')", volumeMounts=[{"name": "v", "mountPath": "/v"}])
    async with running(an_agent(world, folder, "hostpath", host_roots=(allowed,))):
        await world.submit("good", "hostpath", volumes=volume(allowed / "a" / "b"), container=container)
        await world.phase("good", "Succeeded")
        assert (allowed / "a" / "b" / "hello").read_text() == "hi"
        for name, path in (("elsewhere", "/etc"), ("by-link", allowed / "out")):
            await world.submit(name, "hostpath", volumes=volume(path), container=container)
            status = await world.phase(name, "Failed")
            assert status["reason"] == "FailedMount"
            assert f"hostPath {path} is outside of what this node allows ({allowed})" in status["message"]


async def a_link_inside_a_volume_leads_nowhere_else(world: World, folder: Path) -> None:
    """A pod may put a link into its volume, but a later mount of that path does not follow it out."""
    allowed = folder / "shared"
    allowed.mkdir()
    volumes = [{"name": "v", "hostPath": {"path": str(allowed)}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    async with running(an_agent(world, folder, "links", host_roots=(allowed,))):
        plants = python("os.symlink('/etc', '/v/sub')", volumeMounts=mounts)
        await world.submit("plants", "links", volumes=volumes, container=plants)
        await world.phase("plants", "Succeeded")
        follows = python("print(os.listdir('/v'))", volumeMounts=[mounts[0] | {"subPath": "sub"}])
        await world.submit("follows", "links", volumes=volumes, container=follows)
        end = ended(await world.phase("follows", "Failed"))
        assert end["reason"] == "StartError"
        assert f"leads to /etc, which is outside of {allowed}" in end["message"]


async def mount_points_are_made_without_touching_the_machine(world: World, folder: Path) -> None:
    places = ["/brand-new/deep", "/etc/brand-new", "/usr/brand-new", "/scratch/nested"]
    program = """
        for place in sys.argv[1:]:
            pathlib.Path(place, "file").write_text("x")
        pathlib.Path("/dev/termination-log").write_text("done well")
        print(pathlib.Path("/etc/passwd").exists(), pathlib.Path("/dev/null").is_char_device(), os.getpid() < 100)
    """
    mounts = [{"name": "v", "mountPath": place} for place in places] + [{"name": "w", "mountPath": "/scratch"}]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    async with running(an_agent(world, folder, "mounts")):
        await world.submit("p", "mounts", volumes=volumes, container=python(program, *places, volumeMounts=mounts))
        status = await world.phase("p", "Succeeded", "Failed")
        assert await log(world, "p") == "True True True\n"
        assert ended(status)["message"] == "done well"
        assert not any(map(os.path.exists, (*places, "/brand-new", "/dev/termination-log")))


async def a_pod_may_ask_the_api_server_who_it_is(world: World, folder: Path) -> None:
    program = """
        import json, ssl, urllib.request
        folder = pathlib.Path("/var/run/secrets/tokens")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        request = urllib.request.Request(
            f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json.dumps(review).encode(),
            {"authorization": "Bearer " + (folder / "token").read_text(), "content-type": "application/json"},
        )
        trust = ssl.create_default_context(cafile=folder / "ca.crt")
        with urllib.request.urlopen(request, context=trust) as answer:
            print(json.load(answer)["status"]["userInfo"]["username"], (folder / "namespace").read_text())
    """
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volumes = [{"name": "token", "projected": {"sources": sources}}]
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/tokens"}]
    async with running(an_agent(world, folder, "tokens")):
        await world.submit("p", "tokens", volumes=volumes, container=python(program, volumeMounts=mounts))
        await world.phase("p", "Succeeded", "Failed")
        expected = f"system:serviceaccount:{world.namespace}:default {world.namespace}\n"
        assert await log(world, "p") == expected


BODIES = [
    config_and_secrets_are_files_that_follow_their_sources,
    the_environment_is_what_the_pod_asked_for,
    a_pod_waits_for_config_that_is_still_to_come,
    a_pod_that_was_evicted_resumes_from_the_checkpoint_on_its_claim,
    a_host_path_is_used_within_the_allowed_root_and_refused_elsewhere,
    a_link_inside_a_volume_leads_nowhere_else,
    mount_points_are_made_without_touching_the_machine,
    a_pod_may_ask_the_api_server_who_it_is,
]
