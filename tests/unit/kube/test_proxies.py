import pytest

from pumice.kube.errors import BadConfig
from pumice.kube.proxies import check_proxy, from_environment

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "expected"),
    [
        ("https://api.example:6443", "", PROXY),
        ("https://127.0.0.1:6443", "", ""),
        ("https://[::1]:6443", "", ""),
        ("https://localhost:6443", "", ""),
        ("https://api.example:6443", "*", ""),
        ("https://api.example:6443", "example", ""),
        ("https://api.example:6443", ".example", ""),
        ("https://example:6443", ".example", PROXY),
        ("https://api.example:6443", "ample", PROXY),
        ("https://api.example:6443", "api.example:6443", ""),
        ("https://api.example:6443", "api.example:443", PROXY),
        ("https://10.96.0.1:443", "10.0.0.0/8", ""),
        ("https://10.96.0.1:443", "192.168.0.0/16, 10.96.0.1", ""),
        ("https://10.96.0.1:443", "nonsense/8", PROXY),
        ("https://[fd00::1]:443", "fd00::/8", ""),
        ("http://api.example:8080", "", ""),
    ],
)
def test_the_environments_proxy_is_used_where_nothing_exempts_the_server(server, no_proxy, expected):
    assert from_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) == expected


def test_a_proxy_without_a_scheme_speaks_http():
    assert from_environment("http://api.example", {"http_proxy": "proxy:3128"}) == PROXY


def test_a_proxy_that_we_cannot_talk_to_is_told_by_name():
    with pytest.raises(
        BadConfig, match=r"config: proxy 'socks5://x' is not supported; use an http:// or https:// proxy"
    ):
        check_proxy("socks5://x", "config")
