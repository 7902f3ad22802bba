import base64
import os
import textwrap

import pytest

from pumice.clock import RealClock
from pumice.kube import config, kubeconfig
from pumice.kube.credentials import Access, Anonymous
from pumice.kube.errors import BadConfig, NoCredentials
from pumice.kube.exec_auth import PluginPolicy

CLOCK = RealClock()


@pytest.fixture
def home(tmp_path):
    (tmp_path / ".kube").mkdir()
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return str(path)


def find(path="", **settings):
    return config.find(path, clock=CLOCK, **{"env": {}} | settings)


def kubeconfig_of(tmp_path, *, user="{}", cluster="{server: 'https://api:6443'}"):
    return write(
        tmp_path / "config",
        f"""
        apiVersion: v1
        kind: Config
        current-context: here
        clusters: [{{name: c, cluster: {cluster}}}]
        users: [{{name: u, user: {user}}}]
        contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
        """,
    )


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


# ------------------------------------------------------------------------------------------------------ files


def test_the_file_in_the_home_folder_is_the_last_resort(home):
    write(
        home / ".kube/config",
        """
        current-context: dev
        clusters:
        - name: dev
          cluster: {server: "https://dev:6443/", tls-server-name: kubernetes, disable-compression: true}
        contexts:
        - name: dev
          context: {cluster: dev, namespace: team}
        """,
    )
    connection = find(env={"HOME": str(home)})
    assert connection.server == "https://dev:6443"
    assert connection.namespace == "team"
    assert connection.tls_server_name == "kubernetes"
    assert connection.compress is False
    assert isinstance(connection.credentials, Anonymous)
    assert connection.origin == f"context 'dev' of {home}/.kube/config"


def test_several_files_are_merged_and_the_first_to_name_a_thing_wins_as_a_whole(tmp_path):
    first = write(
        tmp_path / "first",
        """
        contexts:
        - name: x
          context: {cluster: red, user: red}
        clusters:
        - name: red
          cluster: {server: "https://first:1"}
        """,
    )
    second = write(
        tmp_path / "second",
        """
        current-context: x
        clusters:
        - name: red
          cluster: {server: "https://second:2", tls-server-name: from-second}
        users:
        - name: red
          user: {token: secret}
        contexts:
        - name: x
          context: {cluster: blue, namespace: second}
        """,
    )
    env = {"KUBECONFIG": os.pathsep.join([first, "", str(tmp_path / "missing"), second])}
    connection = find(env=env)
    assert (connection.server, connection.tls_server_name, connection.namespace) == ("https://first:1", "", "default")


async def test_relative_paths_start_from_the_folder_of_the_file_that_holds_them(tmp_path):
    write(tmp_path / "deep/secrets/token", "from-deep")
    path = write(
        tmp_path / "deep/config",
        """
        current-context: x
        clusters: [{name: c, cluster: {server: "https://api"}}]
        users: [{name: u, user: {tokenFile: secrets/token}}]
        contexts: [{name: x, context: {cluster: c, user: u}}]
        """,
    )
    assert await find(path).credentials.access() == Access("Bearer from-deep")


def test_an_explicit_file_must_exist(tmp_path):
    with pytest.raises(BadConfig, match=r"kubeconfig .*/nowhere cannot be read: No such file or directory"):
        find(str(tmp_path / "nowhere"))


def test_no_file_at_all_says_where_was_looked(home):
    with pytest.raises(
        BadConfig,
        match=r"there is no kubeconfig: looked for .*/.kube/config; name one with --kubeconfig or \$KUBECONFIG",
    ):
        find(env={"HOME": str(home)})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("current-context: {", "line"),
        ("clusters: 7", r"is no kubeconfig: .*clusters"),
        ("clusters: [{cluster: {}}]", "name"),
        ("", "no current-context is set"),
        ("current-context: x", "there is no context 'x'; choose one of: none"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "names cluster 'c', which is not there"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: a}}]}",
            "names user 'u', which is not there",
        ),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c}]}", "has no server"),
    ],
)
def test_a_broken_file_is_told_by_name_and_place(tmp_path, text, problem):
    path = write(tmp_path / "config", text)
    with pytest.raises(BadConfig, match=problem) as caught:
        find(path)
    assert path in str(caught.value)


def test_a_file_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfig, "KUBECONFIG_BYTES_MAX", 10)
    with pytest.raises(BadConfig, match="larger than 10 bytes"):
        find(write(tmp_path / "config", "current-context: x"))


def test_another_context_can_be_chosen(tmp_path):
    path = write(
        tmp_path / "config",
        """
        current-context: a
        clusters: [{name: a, cluster: {server: "https://a"}}, {name: b, cluster: {server: "https://b"}}]
        contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]
        """,
    )
    assert find(path, context="b").server == "https://b"
    with pytest.raises(BadConfig, match="there is no context 'c'; choose one of: 'a', 'b'"):
        find(path, context="c")


# ------------------------------------------------------------------------------------------------------ clusters


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ("{server: 'api:8080'}", "http://api:8080"),
        ("{server: 'api:6443', insecure-skip-tls-verify: true}", "https://api:6443"),
        ("{server: 'https://[::1]:6443/prefix/'}", "https://[::1]:6443/prefix"),
    ],
)
def test_a_server_may_lack_its_scheme(tmp_path, cluster, server):
    assert find(kubeconfig_of(tmp_path, cluster=cluster)).server == server


@pytest.mark.parametrize(
    "server", ["ftp://api", "https://", "https://api:port", "https://api/?x=1", "https://me:secret@api"]
)
def test_an_address_of_no_api_server_is_told(tmp_path, server):
    with pytest.raises(BadConfig, match="cluster 'c' has server"):
        find(kubeconfig_of(tmp_path, cluster=f"{{server: '{server}'}}"))


def test_an_authority_comes_from_data_before_it_comes_from_a_file(tmp_path):
    write(tmp_path / "ca.crt", "from file")
    data = base64_of("from data")
    by_file = find(kubeconfig_of(tmp_path, cluster="{server: 'https://a', certificate-authority: ca.crt}"))
    by_data = find(
        kubeconfig_of(
            tmp_path,
            cluster=f"{{server: 'https://a', certificate-authority: ca.crt, certificate-authority-data: {data}}}",
        )
    )
    assert (by_file.authority.read(), by_data.authority.read()) == (b"from file", b"from data")


def test_an_authority_and_insecure_contradict_each_other(tmp_path):
    cluster = f"{{server: 'https://a', insecure-skip-tls-verify: true, certificate-authority-data: {base64_of('x')}}}"
    with pytest.raises(BadConfig, match="has a certificate authority and insecure-skip-tls-verify; remove one of them"):
        find(kubeconfig_of(tmp_path, cluster=cluster))
    assert (
        find(kubeconfig_of(tmp_path, cluster="{server: 'https://a', insecure-skip-tls-verify: true}")).verify is False
    )


def test_data_that_is_not_base64_is_told(tmp_path):
    with pytest.raises(BadConfig, match="cluster 'c' has certificate data that is not base64"):
        find(kubeconfig_of(tmp_path, cluster="{server: 'https://a', certificate-authority-data: '!!'}"))


def test_the_clusters_own_proxy_wins_over_the_environments(tmp_path):
    env = {"HTTPS_PROXY": "http://env:1"}
    assert find(kubeconfig_of(tmp_path), env=env).proxy == "http://env:1"
    assert (
        find(kubeconfig_of(tmp_path, cluster="{server: 'https://a', proxy-url: 'http://own:2'}"), env=env).proxy
        == "http://own:2"
    )


# ------------------------------------------------------------------------------------------------------ users


async def test_a_token_is_shown_as_a_bearer_token(tmp_path):
    assert await find(kubeconfig_of(tmp_path, user="{token: abc}")).credentials.access() == Access("Bearer abc")


async def test_a_token_file_wins_over_a_token_as_long_as_it_can_be_read(tmp_path):
    path = kubeconfig_of(tmp_path, user="{token: fixed, tokenFile: token}")
    assert await find(path).credentials.access() == Access("Bearer fixed")
    write(tmp_path / "token", "from-file")
    assert await find(path).credentials.access() == Access("Bearer from-file")


def test_a_missing_token_file_is_told_at_once(tmp_path):
    with pytest.raises(NoCredentials, match=r"/gone cannot be read"):
        find(kubeconfig_of(tmp_path, user="{tokenFile: gone}"))


async def test_a_client_certificate_comes_with_its_key_from_data_or_files(tmp_path):
    write(tmp_path / "me.key", "KEY")
    user = f"{{client-certificate-data: {base64_of('CERT')}, client-key: me.key}}"
    assert await find(kubeconfig_of(tmp_path, user=user)).credentials.access() == Access("", b"CERT\nKEY")


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("{username: me, password: hush}", "username and a password, which API servers no longer take"),
        ("{auth-provider: {name: gcp}}", "auth-provider, which kubectl no longer takes either; use an exec plugin"),
        ("{client-certificate: me.crt}", "a client certificate without its key"),
        ("{token: 'tök'}", "characters that no header can carry"),
    ],
)
def test_a_user_that_cannot_work_is_told_without_its_secrets(tmp_path, user, problem):
    with pytest.raises(BadConfig, match=problem) as caught:
        find(kubeconfig_of(tmp_path, user=user))
    assert "user 'u'" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "tök" not in str(caught.value)


def test_impersonation_is_sent_with_every_call(tmp_path):
    user = "{token: t, as: alice, as-uid: '7', as-groups: [dev, ops], as-user-extra: {'example.org/Pröject': [x, z]}}"
    assert find(kubeconfig_of(tmp_path, user=user)).headers == (
        ("impersonate-user", "alice"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-example.org%2fpr%c3%b6ject", "x"),
        ("impersonate-extra-example.org%2fpr%c3%b6ject", "z"),
    )


def test_a_server_process_starts_no_program_that_a_kubeconfig_names(tmp_path):
    user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}}"
    with pytest.raises(NoCredentials, match=r"exec plugin 'login' may not run: .* or allow exec plugins"):
        find(kubeconfig_of(tmp_path, user=user))


async def test_a_plugin_named_by_a_path_is_found_beside_its_kubeconfig_and_is_told_of_the_cluster(tmp_path):
    script = """\
    #!/bin/sh
    printf '%s' "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/told"
    echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'
    """
    write(tmp_path / "bin/login", script)
    (tmp_path / "bin/login").chmod(0o755)
    plugin = "{apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, interactiveMode: Never, provideClusterInfo: true}"
    extension = "[{name: client.authentication.k8s.io/exec, extension: {audience: me}}]"
    cluster = f"{{server: 'https://api', certificate-authority-data: {base64_of('CA')}, extensions: {extension}}}"
    path = kubeconfig_of(tmp_path, user=f"{{exec: {plugin}}}", cluster=cluster)
    connection = find(path, plugins=PluginPolicy(allowed=True))
    assert await connection.credentials.access() == Access("Bearer from-plugin")
    told = (tmp_path / "bin/told").read_text()
    assert told == (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false,"cluster":'
        f'{{"server":"https://api","certificate-authority-data":"{base64_of("CA")}","config":{{"audience":"me"}}}}}}}}'
    )


# ------------------------------------------------------------------------------------------------------ pods


@pytest.fixture
def account(tmp_path):
    write(tmp_path / "account/token", "pod-token\n")
    write(tmp_path / "account/ca.crt", "CA")
    write(tmp_path / "account/namespace", "team\n")
    return tmp_path / "account"


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_in_a_pod_without_a_kubeconfig_the_service_account_is_used(home, account):
    connection = find(env=IN_POD | {"HOME": str(home)}, service_account=account)
    assert connection.server == "https://10.96.0.1:443"
    assert connection.namespace == "team"
    assert connection.authority.read() == b"CA"
    assert await connection.credentials.access() == Access("Bearer pod-token")


def test_an_address_of_version_6_is_put_in_brackets(account):
    env = IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert config.in_cluster(clock=CLOCK, env=env, service_account=account).server == "https://[fd00::1]:443"


def test_the_downward_api_may_name_the_namespace(account):
    env = IN_POD | {"POD_NAMESPACE": "other"}
    assert config.in_cluster(clock=CLOCK, env=env, service_account=account).namespace == "other"


def test_outside_a_pod_there_is_no_service_account(tmp_path, account):
    with pytest.raises(BadConfig, match="this is no pod: KUBERNETES_SERVICE_HOST is not set"):
        config.in_cluster(clock=CLOCK, env={}, service_account=account)
    with pytest.raises(BadConfig, match=r"this pod has no service account mounted: .*/token cannot be read"):
        config.in_cluster(clock=CLOCK, env=IN_POD, service_account=tmp_path / "none")


# ------------------------------------------------------------------------------------------------------ kuberc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Preference", PluginPolicy(allowed=True)),
        ("credentialPluginPolicy: AllowAll", PluginPolicy(allowed=True)),
        ("credentialPluginPolicy: DenyAll", (False, None)),
        (
            "{credentialPluginPolicy: Allowlist, credentialPluginAllowlist: [{command: a}, {name: /b}]}",
            (True, ("a", "/b")),
        ),
    ],
)
def test_kubectls_preferences_say_which_plugins_may_run(home, text, expected):
    write(home / ".kube/kuberc", text)
    policy = config.kubectl_plugin_policy({"HOME": str(home)})
    if isinstance(expected, tuple):
        expected = PluginPolicy(*expected, told_by=str(home / ".kube/kuberc"))
    assert policy == expected


def test_without_preferences_a_persons_own_plugins_run(home):
    assert config.kubectl_plugin_policy({"HOME": str(home)}) == PluginPolicy(allowed=True)
    write(home / ".kube/kuberc", "credentialPluginPolicy: DenyAll")
    assert config.kubectl_plugin_policy({"HOME": str(home), "KUBERC": "off"}) == PluginPolicy(allowed=True)


@pytest.mark.parametrize(
    "text",
    [
        "credentialPluginPolicy: Sometimes",
        "credentialPluginPolicy: Allowlist",
        "{credentialPluginPolicy: AllowAll, credentialPluginAllowlist: [{command: a}]}",
        "credentialPluginAllowlist: 7",
    ],
)
def test_preferences_that_contradict_themselves_allow_nothing(home, text):
    write(home / ".kube/kuberc", text)
    with pytest.raises(BadConfig, match=r"\.kube/kuberc"):
        config.kubectl_plugin_policy({"HOME": str(home)})
