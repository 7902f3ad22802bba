import pytest

from pumice.cli.main import ExitCode, run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--process", "--pretend=3"], "--process and --pretend exclude each other"),
        (["--capacity=64"], "--capacity '64' is not of the form NAME=VALUE"),
        (["--capacity=cpu=many"], "quantity 'many'"),
        (["--label=zone"], "--label 'zone' is not of the form NAME=VALUE"),
        (["--taint=gpu:Sometimes"], "--taint 'gpu:Sometimes' is not KEY[=VALUE]:EFFECT; effects are NoSchedule"),
        (["--kubeconfig=/no/such/file"], "/no/such/file"),
        (["--log-level=loud"], "log level 'loud' is not known"),
    ],
)
def test_what_cannot_be_right_is_told_before_anything_is_done(arguments, problem, capsys):
    assert run(["node", *arguments]) is ExitCode.USAGE
    assert problem in capsys.readouterr().err


def test_a_distribution_that_is_not_known_is_told(tmp_path, capsys):
    config = tmp_path / "kubeconfig"
    config.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    assert run(["node", f"--kubeconfig={config}", "--pretend=1", "--run=often"]) is ExitCode.USAGE
    assert "duration 'often'" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_told_with_its_address(tmp_path, capsys):
    config = tmp_path / "kubeconfig"
    config.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    assert run(["node", f"--kubeconfig={config}", "--pretend=1"]) is ExitCode.FAILED
    assert "http://127.0.0.1:1 gave no answer" in capsys.readouterr().err
