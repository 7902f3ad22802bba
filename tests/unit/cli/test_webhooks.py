"""`pumice webhooks manifests`: what an installer applies."""

import pytest
from click.testing import CliRunner

from pumice import yamltext
from pumice.cli.webhooks import webhooks


def printed(*arguments):
    result = CliRunner().invoke(webhooks, ["manifests", *arguments])
    assert result.exit_code == 0, result.output
    return yamltext.load_all(result.output, source="output")


def test_both_configurations_are_printed():
    kinds = [each["kind"] for each in printed()]
    assert kinds == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_flags_say_whom_to_call():
    mutating, _ = printed("--namespace=batch", "--service=hooks", "--configuration=mine")
    assert mutating["metadata"]["name"] == "mine"
    service = mutating["webhooks"][0]["clientConfig"]["service"]
    assert service == {"name": "hooks", "namespace": "batch", "path": "/jobs/mutate", "port": 443}


def test_the_controllers_account_is_in_our_namespace_unless_told_otherwise():
    assert "system:serviceaccount:batch:pumice-controllers" in str(printed("--namespace=batch"))
    assert "system:serviceaccount:x:y" in str(printed("--controller-user=system:serviceaccount:x:y"))


def test_a_file_of_resource_groups_widens_what_is_asked_about(tmp_path):
    file = tmp_path / "groups.yaml"
    file.write_text("resourceGroups: [{object: {key: namespace, value: [batch]}, schedulerName: volcano}]")
    assert 'request.namespace in ["batch"]' in str(printed(f"--admission-conf={file}"))


@pytest.mark.parametrize(("mode", "extra"), [("off", False), ("warn", True), ("enforce", True)])
def test_policies_stand_in_for_webhooks(mode, extra):
    found = printed("--mode=policies", f"--queue-access={mode}")
    kinds = {each["kind"] for each in found}
    assert kinds == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
    names = {each["metadata"]["name"] for each in found}
    assert ("pumice-jobs-use" in names) == ("pumice-jobs-forgery" in names) == extra
    actions = [
        each["spec"]["validationActions"]
        for each in found
        if each["metadata"]["name"] == "pumice-jobs-use" and "validationActions" in each["spec"]
    ]
    assert actions == ([["Warn"]] if mode == "warn" else [["Deny"]] if extra else [])


def test_every_policy_is_bound():
    found = printed("--mode=policies", "--queue-access=enforce")
    policies = {(each["kind"], each["metadata"]["name"]) for each in found if not each["kind"].endswith("Binding")}
    bound = {
        (each["kind"].removesuffix("Binding"), each["spec"]["policyName"])
        for each in found
        if each["kind"].endswith("Binding")
    }
    assert policies == bound
