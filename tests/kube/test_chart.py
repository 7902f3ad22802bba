"""The chart: what Helm makes of it is what the real API server takes, for default and odd values; bad values are refused."""

import importlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from tools.deploy import generate

import pumice
from pumice import yamltext
from pumice.api import kinds
from pumice.processes.policies import PolicyFile
from pumice.processes.queues import read_queues
from pumice.scheduling.core import builtin
from pumice.telemetry import catalogue
from pumice.webhooks import policies
from pumice.webhooks.registration import AccessMode, Registration

CHART = generate.CHART
NAMESPACE = "pumice-system"
HELM_S_MAX = 120.0
DIGEST = "sha256:" + "0" * 64

ODD_VALUES = {
    "default": {},
    "single": {"mode": "single"},
    "long-names": {"fullnameOverride": "x" * 60, "nameOverride": "y" * 60},
    "alone": {"leaderElection": False, "scheduler": {"replicas": 1}, "controllers": {"replicas": 1}},
    "only-scheduler": {"controllers": {"enabled": False}, "webhooks": {"enabled": False}},
    "only-webhooks": {"controllers": {"enabled": False}, "scheduler": {"enabled": False}},
    "single-without-webhooks": {"mode": "single", "webhooks": {"enabled": False}},
    "policies-instead-of-webhooks": {"admissionPolicies": {"enabled": True}, "webhooks": {"enabled": False}},
    "record-in-a-file": {"record": {"kind": "sqlite", "logs": False, "sqlite": {"storageClassName": "fast"}}},
    "record-in-a-file-of-all": {"mode": "single", "record": {"kind": "sqlite", "sqlite": {"existingClaim": "mine"}}},
    "record-in-postgresql": {
        "record": {"kind": "postgresql", "postgresql": {"secretName": "record-db", "port": 6432}},
        "scheduler": {"prices": {"nvidia.com/gpu": 2.5}},
    },
    "bare": {
        "rbac": {"create": False},
        "networkPolicies": {"enabled": False},
        "podDisruptionBudgets": False,
        "priorityClassName": "",
    },
    "everything": {
        "image": {"repository": "example/pumice", "digest": DIGEST, "pullSecrets": ["registry"]},
        "schedulerNames": ["pumice"],
        "podAnnotations": {"note": 'yes: it\'s "quoted"'},
        "podLabels": {"team": "batch"},
        "scheduler": {
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"role": "control"},
            "affinity": {"nodeAffinity": {}},
            "extraArgs": ["--gang-grace=30"],
            "prices": {"nvidia.com/gpu": 2.5},
            "volcanoMetrics": False,
            "policy": 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\nmetrics:\n  type: prometheus_adaptor\n',
        },
        "controllers": {"sshPlugin": False, "discovery": "networkTopologyDiscovery: []\n"},
        "webhooks": {"queueAccess": "enforce", "excludedNamespaces": ["legacy"]},
        "serviceAccounts": {"annotations": {"cloud": "role"}},
        "networkPolicies": {"schedulerEgress": [{"ports": [{"port": 9090, "protocol": "TCP"}]}]},
        "grafana": {"enabled": True},
        "dashboard": {"enabled": True, "hosts": ["pumice.example.org"], "title": "training", "writes": True},
        "queues": {"team-a": {"weight": 2, "capability": {"nvidia.com/gpu": 16}}},
    },
}
FOREIGN = {  # kinds of operators that this server does not have
    "cert-manager": {"webhooks": {"certificates": {"source": "cert-manager"}}},
    "cert-manager-issuer": {
        "webhooks": {
            "certificates": {"source": "cert-manager", "issuerRef": {"kind": "ClusterIssuer", "name": "corporate"}}
        }
    },
    "service-monitor": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
}


@pytest.fixture
def helm(binaries, tmp_path):
    """Runs Helm; values are given as a file, as people give them."""

    def run(*arguments, values=None, check=True):
        command = [str(binaries / "helm"), *arguments]
        if values is not None:
            file = tmp_path / "values.json"
            file.write_text(json.dumps(values))
            command.append(f"--values={file}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=HELM_S_MAX, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


def template(helm, values, *arguments):
    command = ("template", "pumice", str(CHART), f"--namespace={NAMESPACE}", *arguments)
    return [each for each in yamltext.load_all(helm(*command, values=values).stdout, source="helm") if each]


def of_kind(objects, kind):
    return [each for each in objects if each["kind"] == kind]


def pod_specs(objects):
    return [each["spec"]["template"]["spec"] for each in of_kind(objects, "Deployment")]


# ---------------------------------------------------------------------------------------------------------- Helm's own view


@pytest.mark.parametrize("name", [*ODD_VALUES, *FOREIGN])
def test_helm_lint_finds_nothing(helm, name):
    done = helm("lint", "--strict", str(CHART), values={**ODD_VALUES, **FOREIGN}[name])
    assert "0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mode": "both"}, "mode"),
        ({"scheduler": {"replicas": 0}}, "replicas"),
        ({"scheduler": {"replica": 2}}, "replica"),
        ({"schedulerName": "volcano"}, "schedulerName"),
        ({"schedulerNames": []}, "schedulerNames"),
        ({"schedulerNames": ["Volcano"]}, "schedulerNames"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"webhooks": {"queueAccess": False}}, "queueAccess"),  # what YAML makes of a bare `off`
        ({"webhooks": {"certificates": {"source": "magic"}}}, "source"),
        ({"scheduler": {"resources": {"requests": {"cpu": "half"}}}}, "cpu"),
        ({"scheduler": {"prices": {"cpu": -1}}}, "cpu"),
        ({"leaderElection": False}, "replicas"),  # two that both work
        ({"networkPolicies": {"apiServerPorts": [0]}}, "apiServerPorts"),
        ({"record": {"kind": "postgresql"}}, "secretName"),
        ({"record": {"kind": "mysql"}}, "kind"),
        ({"record": {"kind": "sqlite", "keepDays": 0}}, "keepDays"),
        ({"queues": {"Team A": {}}}, "Team A"),
        ({"queues": {"team-a": 2}}, "team-a"),
        ({name: {"enabled": False} for name in ("scheduler", "controllers", "webhooks")}, ""),
    ],
    ids=str,
)
def test_bad_values_are_refused_by_name(helm, values, named):
    done = helm("template", str(CHART), values=values, check=False)
    assert done.returncode != 0
    assert named in done.stderr


def test_a_record_in_a_file_has_one_writer_and_rights_follow_from_what_is_kept(helm):
    def rendered(**record):
        text = helm("template", str(CHART), values={"record": record}).stdout
        found = {
            (each["kind"], each["metadata"]["name"]): each
            for each in yamltext.load_all(text.encode(), source="chart")
            if each
        }
        name = next(name for kind, name in found if kind == "Deployment" and name.endswith("-controllers"))
        role = found["ClusterRole", name]
        return found["Deployment", name]["spec"], {each for rule in role["rules"] for each in rule["resources"]}

    spec, rights = rendered(kind="sqlite")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert {"pods/log", "tokenreviews", "subjectaccessreviews"} <= rights
    _, rights = rendered(kind="sqlite", logs=False)
    assert "pods/log" not in rights
    spec, rights = rendered(kind="none")
    assert spec["replicas"] == 2
    assert not {"pods/log", "tokenreviews", "subjectaccessreviews"} & rights
    spec, _ = rendered(kind="postgresql", postgresql={"secretName": "db"})
    [container] = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 2
    assert not [argument for argument in container["args"] if "postgresql" in argument], (
        "arguments can be read by others"
    )


# ---------------------------------------------------------------------------------------------------------- the server's view


@pytest.fixture(scope="module")
def schemas(plane, crds, tmp_path_factory):
    """JSON schemas of everything that the real server serves, our kinds included, as kubeconform reads them."""
    folder = tmp_path_factory.mktemp("schemas")
    groups = {"core": "/openapi/v3/api/v1"}
    index = plane.request("GET", "/openapi/v3").body["paths"]
    groups |= {path: f"/openapi/v3/{path}" for path in index if re.fullmatch(r"apis/[^/]+/v[^/]+", path)}
    for where in groups.values():
        document = plane.request("GET", where).body
        components = document.get("components", {}).get("schemas", {})
        for name, schema in components.items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                group = f"-{kind['group'].split('.')[0]}" if kind["group"] else ""
                file = folder / f"{kind['kind'].lower()}{group}-{kind['version']}.json"
                closed = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": components}}
                file.write_text(json.dumps(_strict(closed)))
    return folder


def _strict(schema):
    """OpenAPI's words where JSON schema has others; fields that nobody declared are refused."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    fresh = {key: _strict(value) for key, value in schema.items() if key not in {"format", "default"}}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        preserved = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        fresh |= {} if preserved else {"additionalProperties": False}
    return fresh


@pytest.mark.parametrize("name", ODD_VALUES)
def test_kubeconform_and_the_real_server_take_every_object(name, helm, binaries, plane, crds, schemas, namespace):
    objects = template(helm, ODD_VALUES[name])
    text = "".join(f"---\n{json.dumps(each)}\n" for each in objects)
    done = subprocess.run(
        [
            str(binaries / "kubeconform"),
            "-strict",
            "-summary",
            "-schema-location",
            f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
            "-",
        ],
        input=text,
        capture_output=True,
        text=True,
        timeout=HELM_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Valid: {len(objects)}" in done.stdout
    # The server knows more than a schema does: names, labels, ports, expressions of admission.
    here = text.replace(NAMESPACE, namespace)
    plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=here)


@pytest.mark.parametrize("name", FOREIGN)
def test_objects_of_other_operators_are_made_only_on_request(name, helm):
    usual = {(each["kind"], each["metadata"]["name"]) for each in template(helm, {})}
    objects = template(helm, FOREIGN[name])
    added = {each["kind"] for each in objects if (each["kind"], each["metadata"]["name"]) not in usual}
    expected = {
        "cert-manager": {"Issuer", "Certificate"},
        "cert-manager-issuer": {"Certificate"},
        "service-monitor": {"ServiceMonitor"},
    }
    assert added == expected[name]


def test_with_cert_manager_the_process_neither_makes_keys_nor_may_touch_secrets(helm):
    objects = template(helm, FOREIGN["cert-manager"])
    (deployment,) = [each for each in of_kind(objects, "Deployment") if each["metadata"]["name"] == "pumice-webhooks"]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (certificate,) = of_kind(objects, "Certificate")
    secrets = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
    assert secrets == [certificate["spec"]["secretName"]]
    assert "--no-inject-ca" in container["args"]
    for configuration in [*of_kind(objects, "MutatingWebhookConfiguration")]:
        reference = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert reference == f"{NAMESPACE}/{certificate['metadata']['name']}"
    roles = [
        each for each in objects if each["kind"] in {"Role", "ClusterRole"} and "webhooks" in each["metadata"]["name"]
    ]
    granted = {resource for role in roles for rule in role["rules"] for resource in rule["resources"]}
    assert not granted & {"secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}


# ---------------------------------------------------------------------------------------------------------- what it promises


@pytest.mark.parametrize("name", ODD_VALUES)
def test_every_pod_is_locked_down_probed_and_sized(helm, name):
    for spec in pod_specs(template(helm, ODD_VALUES[name])):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            (listen,) = [each for each in container["args"] if each.startswith("--listen=")]
            for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
                asked = container[probe]["httpGet"]
                assert asked["path"] == path
                assert listen.endswith(f":{ports[asked['port']]}")


def test_the_pods_meet_the_restricted_pod_security_standard(helm, plane, namespace, crds):
    """The real server judges: a namespace that enforces the standard takes the pods."""
    plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    for component, spec in enumerate(pod_specs(template(helm, ODD_VALUES["single"]))):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{component}", "namespace": namespace},
            "spec": {**spec, "serviceAccountName": "default"},
        }
        plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))


def test_a_webhook_that_leaves_answers_until_everybody_knows(helm):
    (container,) = [
        each for spec in pod_specs(template(helm, {})) for each in spec["containers"] if each["name"] == "webhooks"
    ]
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] >= 5


def test_every_process_has_two_replicas_a_budget_and_a_network_policy(helm):
    objects = template(helm, {})
    names = {each["metadata"]["name"] for each in of_kind(objects, "Deployment")}
    assert names == {"pumice-scheduler", "pumice-controllers", "pumice-webhooks"}
    assert all(each["spec"]["replicas"] == 2 for each in of_kind(objects, "Deployment"))
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        assert {each["metadata"]["name"] for each in of_kind(objects, kind)} == names
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert accounts == {*names, "pumice-viewer"}  # as whom people ask the leader; no process runs as it


@pytest.mark.parametrize("mode", ["separate", "single"])
def test_probes_of_flows_reach_pods_of_every_namespace(helm, mode):
    found = of_kind(template(helm, {"mode": mode}), "NetworkPolicy")
    wide = [each["metadata"]["name"] for each in found if {"to": [{"namespaceSelector": {}}]} in each["spec"]["egress"]]
    assert wide == [
        each["metadata"]["name"] for each in found if mode == "single" or "controllers" in each["metadata"]["name"]
    ]
    closed = template(helm, {"mode": mode, "networkPolicies": {"controllersEgress": []}})
    assert all(rule.get("ports") for each in of_kind(closed, "NetworkPolicy") for rule in each["spec"]["egress"])


def test_those_who_may_ask_the_leader_are_named_and_get_no_more(helm):
    subject = {"kind": "Group", "name": "ml-platform", "apiGroup": "rbac.authorization.k8s.io"}
    made = template(helm, {"viewers": [subject]})
    bindings = [each for each in made if each.get("subjects") == [subject]]
    assert [(each["kind"], each["roleRef"]["name"]) for each in bindings] == [
        ("ClusterRoleBinding", "pumice-viewer-lease"),
        ("RoleBinding", "pumice-viewer"),
    ]
    roles = {(each["kind"], each["metadata"]["name"]): each["rules"] for each in made if each["kind"].endswith("Role")}
    assert roles["Role", "pumice-viewer"] == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": ["pumice-viewer"],
            "verbs": ["create"],
        },
        {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
    ]
    assert {verb for rule in roles["ClusterRole", "pumice-viewer"] for verb in rule["verbs"]} == {"get", "list"}


def test_in_one_deployment_all_three_processes_share_a_pod(helm):
    objects = template(helm, {"mode": "single"})
    (deployment,) = of_kind(objects, "Deployment")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in containers} == {"scheduler", "controllers", "webhooks"}
    ports = [port["containerPort"] for each in containers for port in each["ports"]]
    assert len(ports) == len(set(ports))
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    for binding in [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]:
        name = "pumice-viewer" if binding["roleRef"]["name"].startswith("pumice-viewer") else account
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    user = f"--controller-user=system:serviceaccount:{NAMESPACE}:{account}"
    assert any(user in each["args"] for each in containers)


@pytest.mark.parametrize("mode", AccessMode)
def test_the_webhook_configurations_are_those_of_the_code(helm, mode):
    objects = template(helm, {"webhooks": {"queueAccess": mode.value}, "schedulerNames": ["volcano", "my-batch"]})
    registration = Registration(
        namespace=NAMESPACE,
        service="pumice-webhooks",
        configuration="pumice-webhooks",
        scheduler_names=("volcano", "my-batch"),
        access=mode,
        controllers=(f"system:serviceaccount:{NAMESPACE}:pumice-controllers",),
    )
    for wanted in registration.manifests():
        (found,) = of_kind(objects, wanted["kind"])
        assert found["webhooks"] == wanted["webhooks"]


@pytest.mark.parametrize("mode", AccessMode)
def test_the_admission_policies_are_those_of_the_code(helm, mode):
    values = {"admissionPolicies": {"enabled": True}, "schedulerNames": ["volcano", "my-batch"]}
    objects = template(helm, {**values, "webhooks": {"enabled": False, "queueAccess": mode.value}})
    registration = Registration(
        namespace=NAMESPACE,
        scheduler_names=("volcano", "my-batch"),
        access=mode,
        controllers=(f"system:serviceaccount:{NAMESPACE}:pumice-controllers",),
    )
    wanted = {(each["kind"], each["metadata"]["name"]): each for each in policies.manifests(registration)}
    found = [each for each in objects if "AdmissionPolicy" in each["kind"]]
    assert {(each["kind"], each["metadata"]["name"]): each for each in found} == wanted
    assert len(found) == len(wanted)


def test_webhooks_fail_closed_for_our_kinds_alone_and_leave_system_namespaces_out(helm):
    objects = template(helm, {"webhooks": {"excludedNamespaces": ["legacy"]}})
    ours = {kind.resource for kind in kinds.CUSTOM_KINDS}
    configurations = of_kind(objects, "MutatingWebhookConfiguration") + of_kind(
        objects, "ValidatingWebhookConfiguration"
    )
    for hook in [hook for each in configurations for hook in each["webhooks"]]:
        (rule,) = hook["rules"]
        assert hook["timeoutSeconds"] == 5
        if f"{rule['resources'][0]}.{rule['apiGroups'][0]}" not in ours:
            assert rule["resources"] == ["pods"]
            assert hook["failurePolicy"] == "Ignore"
            assert "schedulerName" in hook["matchConditions"][0]["expression"]
        if rule["scope"] == "Namespaced":
            (expression,) = hook["namespaceSelector"]["matchExpressions"]
            assert expression["operator"] == "NotIn"
            assert expression["values"] == ["kube-system", NAMESPACE, "legacy"]


def test_the_default_policy_is_the_built_in_one_and_mounted_so_that_changes_arrive(helm, tmp_path):
    objects = template(helm, {})
    (config,) = [each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == "pumice-policy"]
    text = config["data"]["policy.yaml"]
    assert yamltext.load_all(text, source="chart") == yamltext.load_all(builtin.TEXT, source="code")
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    assert PolicyFile(str(file), extra={}, log=lambda *_, **__: None).current.actions
    (deployment,) = [each for each in of_kind(objects, "Deployment") if each["metadata"]["name"] == "pumice-scheduler"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "policy"]
    assert "subPath" not in mount  # the kubelet never renews those
    assert f"--policy={mount['mountPath']}/policy.yaml" in container["args"]


def test_declared_queues_reach_the_scheduler(helm, tmp_path):
    objects = template(helm, ODD_VALUES["everything"])
    (config,) = [each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == "pumice-policy"]
    file = tmp_path / "queues.yaml"
    file.write_text(config["data"]["queues.yaml"])
    assert read_queues(str(file)) == ODD_VALUES["everything"]["queues"]
    (container,) = [each for spec in pod_specs(objects) for each in spec["containers"] if each["name"] == "scheduler"]
    assert "--queues=/etc/pumice/queues.yaml" in container["args"]


@pytest.mark.parametrize("name", ["default", "everything", "alone", *FOREIGN])
def test_every_argument_is_an_option_that_the_process_has(helm, name):
    for spec in pod_specs(template(helm, {**ODD_VALUES, **FOREIGN}[name])):
        for container in spec["containers"]:
            process, *arguments = container["args"]
            command = getattr(importlib.import_module(f"pumice.cli.{process}"), process)
            expanded = [each.replace("$(KUBE_POD_NAMESPACE)", NAMESPACE) for each in arguments]
            with command.make_context(process, expanded, resilient_parsing=False) as context:
                assert context.params["listen"].startswith("0.0.0.0:")


def test_the_dashboards_own_account_writes_nothing_whether_people_may_act_or_not(helm):
    def made(writes):
        objects = template(helm, {"dashboard": {"enabled": True, "hosts": ["a.example"], "writes": writes}})
        (container,) = [
            each for spec in pod_specs(objects) for each in spec["containers"] if each["name"] == "dashboard"
        ]
        rules = [
            each["rules"] for each in objects if each["metadata"]["name"] == "pumice-dashboard" and "rules" in each
        ]
        return "--writes" in container["args"], rules

    (shows, looking), (acts, acting) = made(writes=False), made(writes=True)
    assert (shows, acts) == (False, True)
    assert looking == acting
    created = {
        each
        for role in acting
        for rule in role
        if rule["verbs"] != ["get"] and rule["verbs"] != ["list"]
        for each in rule["resources"]
    }
    assert created == {"tokenreviews", "subjectaccessreviews", "serviceaccounts/token"}


def test_every_metric_of_the_dashboard_is_in_the_catalogue(helm):
    (config,) = [
        each
        for each in of_kind(template(helm, {"grafana": {"enabled": True}}), "ConfigMap")
        if "pumice.json" in each["data"]
    ]
    dashboard = json.loads(config["data"]["pumice.json"])
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries += [each["query"] for each in dashboard["templating"]["list"]]
    known = {metric.name for metric in catalogue.CATALOGUE}
    named = {name for query in queries for name in re.findall(r"(?:pumice|volcano)_\w+", query)}
    assert len(named) > 15
    assert {re.sub(r"_(bucket|sum|count)$", "", name) if name not in known else name for name in named} <= known


def test_the_crds_of_the_chart_are_those_of_the_code(helm):
    shown = {
        each["metadata"]["name"]
        for each in yamltext.load_all(helm("show", "crds", str(CHART)).stdout, source="helm")
        if each
    }
    assert shown == {kind.resource for kind in kinds.CUSTOM_KINDS}


def test_the_generated_files_are_current(binaries, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    assert generate.main() == 0, capsys.readouterr().out


def test_the_plain_manifest_is_taken_by_the_real_server(plane, crds):
    """Dry, and without its CRDs, which are there already; its namespace is real, or nothing could be put into it."""
    assert plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).status in {201, 409}
    objects = [each for each in yamltext.load_all(generate.MANIFEST.read_text(), source="plain") if each]
    assert len(of_kind(objects, "CustomResourceDefinition")) == len(kinds.CUSTOM_KINDS)
    text = "".join(f"---\n{json.dumps(each)}\n" for each in objects if each["kind"] != "CustomResourceDefinition")
    plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=text)


def test_a_release_is_installed_changed_and_removed_by_helm(helm, plane, crds, namespace):
    """On the real server; its pods wait for images that nobody has, which is not Helm's business."""
    where = (f"--namespace={namespace}", f"--kubeconfig={plane.kubeconfig}", "--wait=hookOnly")
    release = ("pumice-test", str(CHART), *where)
    values = {"fullnameOverride": "a-release", "webhooks": {"enabled": False}}

    def deployments():
        found = json.loads(plane.kubectl("-n", namespace, "get", "deployments", "-o", "json").stdout)["items"]
        return {each["metadata"]["name"] for each in found}

    helm("install", *release, "--skip-crds", values=values)  # they are there, and other tests are using them
    assert deployments() == {"a-release-scheduler", "a-release-controllers"}
    helm("upgrade", *release, values={**values, "mode": "single"})
    assert deployments() == {"a-release"}
    helm("uninstall", "pumice-test", *where)
    assert deployments() == set()
    assert "a-release" not in plane.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name").stdout
    plane.kubectl("get", "crd", "queues.scheduling.volcano.sh")  # whose objects would go with it


def test_there_is_a_value_for_every_key_of_the_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())
    (values,) = yamltext.load_all((CHART / "values.yaml").read_text(), source="values.yaml")

    def missing(schema, values, path):
        for key, inner in schema.get("properties", {}).items():
            if key not in values:
                yield f"{path}{key}"
            elif isinstance(values[key], dict) and values[key]:
                yield from missing(inner, values[key], f"{path}{key}.")

    optional = {"global"}
    assert set(missing(schema, values, "")) - optional == set()


def test_the_chart_has_the_version_of_the_package():
    (chart,) = yamltext.load_all(Path(CHART / "Chart.yaml").read_text(), source="Chart.yaml")
    assert chart["appVersion"] == pumice.__version__
