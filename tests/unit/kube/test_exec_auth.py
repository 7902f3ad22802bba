import asyncio
import json
import os
import stat
import sys
import textwrap

import pytest

from pumice import instant
from pumice.kube import exec_auth
from pumice.kube.credentials import Access
from pumice.kube.errors import BadConfig, NoCredentials
from pumice.kube.exec_auth import EnvVar, ExecConfig, ExecCredentials, PluginPolicy

V1, V1BETA1 = exec_auth.API_VERSIONS
NOON = instant.parse_instant("2026-11-15T12:00:00Z")


class SetClock:
    """A clock that a test sets."""

    def __init__(self):
        self.passed_s = 0.0

    def now(self):
        return NOON + round(self.passed_s * instant.SECOND)

    def monotonic(self):
        return self.passed_s

    async def sleep(self, seconds):
        raise AssertionError("nobody should sleep here")


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def plugin(tmp_path):
    """A program that counts its runs, and prints what the test put beside it."""
    path = tmp_path / "login"
    path.write_text(
        textwrap.dedent(
            f"""\
            #!{sys.executable}
            import pathlib, sys
            here = pathlib.Path(__file__).parent
            with open(here / "runs", "a") as runs:
                runs.write("x")
            exec((here / "script.py").read_text())
            """
        )
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def script(plugin, text):
    (plugin.parent / "script.py").write_text(textwrap.dedent(text))


def prints(plugin, version=V1, kind="ExecCredential", **status):
    answer = json.dumps({"apiVersion": version, "kind": kind, "status": status})
    script(plugin, f"print({answer!r})")


def runs(plugin):
    path = plugin.parent / "runs"
    return len(path.read_text()) if path.exists() else 0


def credentials(plugin, clock, *, policy=PluginPolicy(allowed=True), cluster=None, **settings):  # noqa: B008 - frozen
    config = ExecConfig(**{"command": str(plugin), "api_version": V1, "interactive_mode": "Never"} | settings)
    return ExecCredentials(config, user="me", policy=policy, cluster=cluster or {}, clock=clock)


# ------------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_token_is_used_until_it_expires(plugin, clock, version):
    prints(plugin, version, token="one", expirationTimestamp="2026-11-15T13:00:00Z")
    made = credentials(plugin, clock, api_version=version)
    assert await made.access() == Access("Bearer one")
    clock.passed_s = 3_000
    assert await made.access() == Access("Bearer one")
    assert runs(plugin) == 1
    prints(plugin, version, token="two")
    clock.passed_s = 3_600 - exec_auth.EXPIRY_LEEWAY / instant.SECOND
    assert await made.access() == Access("Bearer two")
    assert runs(plugin) == 2


async def test_a_credential_without_an_expiry_is_used_until_the_server_rejects_it(plugin, clock):
    prints(plugin, token="one")
    made = credentials(plugin, clock)
    first = await made.access()
    clock.passed_s = 1e6
    assert await made.access() == first
    prints(plugin, token="two")
    assert made.rejected(first) is True
    assert await made.access() == Access("Bearer two")
    assert made.rejected(first) is True, "somebody has renewed it meanwhile: try again"
    assert runs(plugin) == 2


async def test_a_plugin_whose_fresh_answer_is_rejected_is_not_run_at_every_call(plugin, clock):
    prints(plugin, token="bad")
    made = credentials(plugin, clock)
    assert made.rejected(await made.access()) is False
    assert runs(plugin) == 1
    clock.passed_s += exec_auth.RERUN_S_MIN
    assert made.rejected(await made.access()) is True


async def test_a_certificate_is_taken_with_its_key_and_with_a_token(plugin, clock):
    prints(plugin, token="t", clientCertificateData="CERT", clientKeyData="KEY")
    assert await credentials(plugin, clock).access() == Access("Bearer t", b"CERT\nKEY")


async def test_many_who_ask_at_once_run_the_plugin_once(plugin, clock):
    prints(plugin, token="one")
    made = credentials(plugin, clock)
    assert set(await asyncio.gather(*(made.access() for _ in range(10)))) == {Access("Bearer one")}
    assert runs(plugin) == 1


async def test_the_plugin_is_given_its_arguments_and_environment_and_is_told_of_the_cluster(plugin, clock, monkeypatch):
    monkeypatch.setenv("INHERITED", "yes")
    script(
        plugin,
        """\
        import json, os
        told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        token = "-".join([*sys.argv[1:], os.environ["OWN"], os.environ["INHERITED"], told["spec"]["cluster"]["server"].split("//")[1]])
        assert told["apiVersion"] == "client.authentication.k8s.io/v1" and told["kind"] == "ExecCredential"
        assert told["spec"]["interactive"] is False
        assert sys.stdin.read() == ""
        print(json.dumps(told | {"status": {"token": token}}))
        """,
    )
    made = credentials(
        plugin,
        clock,
        args=("a", "b"),
        env=(EnvVar("OWN", "own"),),
        provide_cluster_info=True,
        cluster={"server": "https://api"},
    )
    assert await made.access() == Access("Bearer a-b-own-yes-api")


async def test_a_plugin_that_does_not_ask_is_not_told_of_the_cluster(plugin, clock):
    script(
        plugin,
        """\
        import json, os
        told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        print(json.dumps(told | {"status": {"token": "-".join(told["spec"])}}))
        """,
    )
    assert await credentials(plugin, clock, cluster={"server": "https://api"}).access() == Access("Bearer interactive")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise SystemExit(3)", "failed with exit code 3; see what it printed, or log in again"),
        ("print('secret')", "printed something that is no ExecCredential in JSON; run it by hand"),
        (f'print(\'{{"apiVersion":"{V1BETA1}","kind":"ExecCredential"}}\')', "answered with another kind or version"),
        (f'print(\'{{"apiVersion":"{V1}","kind":"Secret"}}\')', "answered with another kind or version"),
        (f'print(\'{{"apiVersion":"{V1}","kind":"ExecCredential"}}\')', "neither a token nor a certificate"),
        ("print('x' * 2_000_000)", "printed more than 1048576 bytes"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_told_and_never_shown(plugin, clock, text, problem):
    script(plugin, text)
    with pytest.raises(NoCredentials, match=problem) as caught:
        await credentials(plugin, clock).access()
    assert f"exec plugin {str(plugin)!r} of user 'me'" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"clientCertificateData": "CERT"}, "a client certificate without its key"),
        ({"token": "t", "clientKeyData": "KEY"}, "a client certificate without its key, or a key alone"),
        ({"token": "t", "expirationTimestamp": "soon"}, "no RFC 3339 time"),
    ],
)
async def test_half_a_credential_is_none(plugin, clock, status, problem):
    prints(plugin, **status)
    with pytest.raises(NoCredentials, match=problem):
        await credentials(plugin, clock).access()


async def test_a_plugin_that_never_ends_is_ended(plugin, clock, monkeypatch):
    monkeypatch.setattr(exec_auth, "PLUGIN_S_MAX", 0.5)
    script(
        plugin, "import os, time; (here / 'pid').write_text(str(os.getpid())); print('{', flush=True); time.sleep(600)"
    )
    with pytest.raises(NoCredentials, match=r"did not end within 0.5 s; run it by hand"):
        await credentials(plugin, clock).access()
    if (plugin.parent / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((plugin.parent / "pid").read_text()), 0)


async def test_a_plugin_that_is_not_there_says_how_to_get_it(tmp_path, clock):
    hint = "get it from your company's store"
    with pytest.raises(NoCredentials, match=f"cannot be started: No such file or directory; {hint}"):
        await credentials(tmp_path / "absent", clock, install_hint=hint).access()


# ------------------------------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"command": ""}, "has an exec plugin without a command"),
        ({"api_version": "client.authentication.k8s.io/v1alpha1"}, "use client.authentication.k8s.io/v1 or"),
        ({"interactive_mode": ""}, "has no interactiveMode, which client.authentication.k8s.io/v1 requires"),
    ],
)
def test_a_plugin_that_breaks_the_contract_is_told_before_it_runs(plugin, clock, settings, problem):
    with pytest.raises(BadConfig, match=problem) as caught:
        credentials(plugin, clock, **settings)
    assert "user 'me'" in str(caught.value)


async def test_the_older_version_may_leave_out_whether_it_asks(plugin, clock):
    prints(plugin, V1BETA1, token="one")
    made = credentials(plugin, clock, api_version=V1BETA1, interactive_mode="")
    assert await made.access() == Access("Bearer one")


async def test_a_plugin_that_must_ask_a_person_needs_a_terminal(plugin, clock):
    prints(plugin, token="one")
    with pytest.raises(NoCredentials, match="wants to ask a person, and there is no terminal"):
        await credentials(plugin, clock, interactive_mode="Always").access()
    assert runs(plugin) == 0


async def test_a_plugin_may_ask_where_there_is_a_terminal(plugin, clock, monkeypatch):
    script(
        plugin,
        """\
        import json, os
        told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        print(json.dumps(told | {"status": {"token": str(told["spec"]["interactive"]) + str(sys.stdin.isatty())}}))
        """,
    )
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal, os.fdopen(ours):
        monkeypatch.setattr(sys, "stdin", terminal)
        before = os.dup(0)
        os.dup2(theirs, 0)
        try:
            asked = await credentials(plugin, clock, interactive_mode="IfAvailable").access()
            never = await credentials(plugin, clock, interactive_mode="Never").access()
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert (asked, never) == (Access("Bearer TrueTrue"), Access("Bearer FalseFalse"))


def test_an_allow_list_is_of_programs_not_of_words(plugin, clock, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(plugin.parent), prepend=os.pathsep)
    for commands in ((str(plugin),), ("login",), ("other", "login")):
        credentials(plugin, clock, policy=PluginPolicy(allowed=True, commands=commands))
    for commands in ((), ("other",), (str(tmp_path / "elsewhere" / "login"),)):
        with pytest.raises(NoCredentials, match="is not on the allow-list of kuberc; add it there"):
            credentials(plugin, clock, policy=PluginPolicy(allowed=True, commands=commands, told_by="kuberc"))
