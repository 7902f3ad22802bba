"""`pumice scheduler` as operators meet it: health, metrics that a real Prometheus scrapes, explanations, replicas."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.bodies.patience import PATIENCE_S
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

POLICY = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"


@pytest.fixture(scope="module")
def watched_plane(binaries):
    with ControlPlane(nodes=pretend_nodes(1, gpus=4, prefix="watched-")) as plane:
        install_kinds(plane)
        yield plane


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(test, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = test()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(what)


class Scheduler:
    def __init__(self, plane, folder, *arguments):
        self.port = free_port()
        self.log = folder / f"scheduler-{self.port}.log"
        command = [sys.executable, "-m", "pumice.cli", "scheduler", "--kubeconfig", str(plane.kubeconfig)]
        command += ["--listen", f"127.0.0.1:{self.port}", *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=PATIENCE_S)

    def get(self, path, token=""):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def heard(self, event):
        return event in self.log.read_text()


def a_waiting_gang(name):
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 2, "minResources": {"nvidia.com/gpu": "9000"}},
    }


def test_metrics_are_well_formed_and_a_real_prometheus_scrapes_them(watched_plane, tmp_path):
    promtool, prometheus = shutil.which("promtool"), shutil.which("prometheus")
    if not promtool or not prometheus:
        assert not os.environ.get("CI"), "prometheus is missing: tools/kube/packages should have installed it"
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    with Scheduler(watched_plane, tmp_path, "--no-leader-elect", "--price", "nvidia.com/gpu=2.50") as scheduler:
        wait_until(scheduler.is_ready, "the scheduler should become ready")
        wait_until(
            lambda: "pumice_idle_dollars_per_hour{" in scheduler.get("/metrics")[1], "a cycle should have been measured"
        )
        text = scheduler.get("/metrics")[1]
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        # Volcano's names are as they are; ours have nothing to be criticised.
        assert not [line for line in checked.stderr.splitlines() if not line.startswith("volcano_")], checked.stderr
        assert 'pumice_idle_dollars_per_hour{resource="nvidia.com/gpu"} 10.0' in text
        config = tmp_path / "prometheus.yml"
        scrape = {
            "job_name": "pumice",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{scheduler.port}"]}],
        }
        config.write_text(json.dumps({"scrape_configs": [scrape]}))
        port = free_port()
        command = [
            prometheus,
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (tmp_path / "prometheus.log").open("w") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:

            def scraped():
                try:
                    with urllib.request.urlopen(
                        f"http://127.0.0.1:{port}/api/v1/query?query=pumice_cycles_total", timeout=5
                    ) as answer:
                        return json.load(answer)["data"]["result"]
                except OSError:
                    return None

            result = wait_until(scraped, "Prometheus should have scraped the scheduler")
            assert float(result[0]["value"][1]) >= 1
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE_S)


def test_without_volcanos_names_promtool_has_nothing_to_say(watched_plane, tmp_path):
    promtool = shutil.which("promtool")
    if not promtool:
        assert not os.environ.get("CI"), "prometheus is missing: tools/kube/packages should have installed it"
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    with Scheduler(watched_plane, tmp_path, "--no-leader-elect", "--no-volcano-metrics") as scheduler:
        wait_until(scheduler.is_ready, "the scheduler should become ready")
        text = scheduler.get("/metrics")[1]
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_leader_explains_a_gang_to_those_who_may_see_it(watched_plane, tmp_path):
    plane = watched_plane
    plane.create_namespace("explained")
    wait_until(
        lambda: plane.kubectl("-n", "explained", "get", "sa", "default", check=False).returncode == 0,
        "a service account should appear",
    )
    plane.kubectl("-n", "explained", "create", "-f", "-", input=json.dumps(a_waiting_gang("huge")))
    token = plane.kubectl("-n", "explained", "create", "token", "default", "--audience=pumice.dev").stdout.strip()
    with Scheduler(plane, tmp_path, "--no-leader-elect") as scheduler:
        wait_until(scheduler.is_ready, "the scheduler should become ready")
        assert scheduler.get("/v1/gangs/explained/huge")[0] == 401
        assert scheduler.get("/v1/gangs/explained/huge", "nonsense")[0] == 401
        assert scheduler.get("/v1/gangs/explained/huge", token)[0] == 403
        role = ["-n", "explained", "create", "role", "see", "--verb=get", "--resource=podgroups.scheduling.volcano.sh"]
        plane.kubectl(*role)
        plane.kubectl(
            "-n", "explained", "create", "rolebinding", "see", "--role=see", "--serviceaccount=explained:default"
        )
        status, body = wait_until(lambda: _allowed(scheduler, token), "a role that allows it should be enough")
        assert status == 200
        said = json.loads(body)
        assert said["gang"]["key"] == "explained/huge"
        assert "its minimum asks for more than the whole cluster has" in said["gang"]["reasons"][0]["reason"]
        assert scheduler.get("/v1/gangs/explained/nobody", token)[0] == 404


def _allowed(scheduler, token):
    answer = scheduler.get("/v1/gangs/explained/huge", token)
    return answer if answer[0] == 200 else None


def test_one_of_two_replicas_leads_and_the_other_takes_over_at_once_on_sigterm(watched_plane, tmp_path):
    lease = ["--lease-name", "replicas"]
    with Scheduler(watched_plane, tmp_path, *lease) as first:
        wait_until(lambda: first.heard("scheduler_started"), "the first replica should lead")
        with Scheduler(watched_plane, tmp_path, *lease) as second:
            wait_until(lambda: second.get("/livez")[0] == 200, "the second replica should be alive")
            assert not second.heard("scheduler_started")
            first.process.send_signal(signal.SIGTERM)
            assert first.process.wait(timeout=PATIENCE_S) == 0
            wait_until(lambda: second.heard("scheduler_started"), "the second replica should take over")


def test_a_second_replica_takes_over_after_a_kill(watched_plane, tmp_path):
    lease = ["--lease-name", "killed"]
    with Scheduler(watched_plane, tmp_path, *lease) as first:
        wait_until(lambda: first.heard("scheduler_started"), "the first replica should lead")
        with Scheduler(watched_plane, tmp_path, *lease) as second:
            wait_until(lambda: second.get("/livez")[0] == 200, "the second replica should be alive")
            first.process.kill()
            first.process.wait(timeout=PATIENCE_S)
            wait_until(lambda: second.heard("scheduler_started"), "the second replica should take over")


def test_while_volcano_leads_its_name_is_refused(watched_plane, tmp_path):
    plane = watched_plane
    plane.create_namespace("volcano-system")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    # Renewed just now, and for long: nobody renews it again while this test runs.
    spec = {"holderIdentity": "volcano-scheduler-0", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "volcano"}, "spec": spec}
    plane.kubectl("-n", "volcano-system", "create", "-f", "-", input=json.dumps(lease))
    try:
        with Scheduler(plane, tmp_path, "--no-leader-elect") as refused:
            assert refused.process.wait(timeout=PATIENCE_S) == 5
            assert refused.heard(
                "Volcano is running here (lease volcano-system/volcano is held by volcano-scheduler-0)"
            )
        with Scheduler(plane, tmp_path, "--no-leader-elect", "--scheduler-name", "pumice") as other:
            wait_until(other.is_ready, "another name is nobody's business")
    finally:
        plane.kubectl("-n", "volcano-system", "delete", "lease", "volcano")


def test_a_policy_file_is_reloaded_and_a_bad_one_is_refused(watched_plane, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with Scheduler(watched_plane, tmp_path, "--no-leader-elect", "--policy", str(policy)) as scheduler:
        wait_until(scheduler.is_ready, "the scheduler should become ready")
        policy.write_text(POLICY.replace("predicates", "predicate"))
        wait_until(lambda: scheduler.heard("did you mean predicates?"), "the bad file should be refused")
        policy.write_text(POLICY.replace("allocate", '"allocate, backfill"'))
        wait_until(lambda: scheduler.heard("policy_loaded"), "the good file should be loaded")
        assert scheduler.get("/livez")[0] == 200
