import os

import pytest

from pumice.kube import credentials
from pumice.kube.credentials import Access, Fixed, Presented, RotatingFile, bearer
from pumice.kube.errors import NoCredentials


class Watch:
    """A monotonic clock that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def monotonic():
    return Watch()


def replace(path, content):
    """As a kubelet does it: a new file under the old name."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)  # noqa: PTH105 - the very call that is meant


def test_a_file_is_read_again_once_it_was_replaced_but_not_at_every_call(tmp_path, monotonic):
    path = tmp_path / "token"
    path.write_bytes(b"one")
    file = RotatingFile(path, monotonic)
    assert file.read() == b"one"
    replace(path, b"two")
    assert file.read() == b"one"
    monotonic.now += credentials.FILE_CHECK_S_MIN
    assert file.read() == b"two"


def test_a_link_that_is_swapped_is_a_replaced_file(tmp_path, monotonic):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    link = tmp_path / "data"
    link.symlink_to("one")
    file = RotatingFile(link / "token", monotonic)
    assert file.read() == b"one"
    link.unlink()
    link.symlink_to("two")
    monotonic.now += credentials.FILE_CHECK_S_MIN
    assert file.read() == b"two"


@pytest.mark.parametrize(
    "harm", [lambda path: path.unlink(), lambda path: replace(path, b""), lambda path: replace(path, b" \n")]
)
def test_the_last_good_content_outlives_a_bad_moment(tmp_path, monotonic, harm):
    path = tmp_path / "token"
    path.write_bytes(b"good")
    file = RotatingFile(path, monotonic)
    file.read()
    harm(path)
    monotonic.now += credentials.FILE_CHECK_S_MIN
    assert file.read() == b"good"
    replace(path, b"better")
    monotonic.now += credentials.FILE_CHECK_S_MIN
    assert file.read() == b"better"


def test_a_file_that_never_was_good_is_told_by_path(tmp_path, monotonic):
    with pytest.raises(NoCredentials, match=r"absent cannot be read: No such file or directory; correct the path"):
        RotatingFile(tmp_path / "absent", monotonic).read()
    (tmp_path / "empty").touch()
    with pytest.raises(NoCredentials, match=r"empty is empty: .* log in again"):
        RotatingFile(tmp_path / "empty", monotonic).read()
    (tmp_path / "big").write_bytes(b"x" * (credentials.FILE_BYTES_MAX + 1))
    with pytest.raises(NoCredentials, match=r"big cannot be read: larger than 1048576 bytes"):
        RotatingFile(tmp_path / "big", monotonic).read()


async def test_a_rejected_token_is_looked_up_again_at_once(tmp_path, monotonic):
    path = tmp_path / "token"
    path.write_bytes(b"old\n")
    presented = Presented(token=RotatingFile(path, monotonic))
    access = await presented.access()
    assert access == Access("Bearer old")
    assert presented.rejected(access) is False, "the file still holds the rejected token"
    replace(path, b"new\n")
    assert presented.rejected(access) is True
    assert await presented.access() == Access("Bearer new")


async def test_a_token_that_never_changes_is_not_worth_a_second_try():
    presented = Presented(token=Fixed(b"same"))
    assert presented.rejected(await presented.access()) is False


def test_a_secret_is_never_shown():
    assert repr(Access("Bearer secret", b"key")) == "Access(authorization, certificate)"
    assert repr(Access()) == "Access(anonymous)"


@pytest.mark.parametrize("token", [b"a\nb", b"\xff", b"a\x00", "tök".encode()])
def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token):
    with pytest.raises(NoCredentials, match="holds characters that no HTTP header can carry") as caught:
        bearer(token)
    assert "a" not in str(caught.value).split()
