"""`pumice dashboard`: where the one-time link goes."""

import stat

import pytest

from pumice.cli.dashboard import Links
from pumice.errors import BadInput


def test_a_link_file_is_made_anew_and_read_by_its_owner_alone(tmp_path, capsys):
    file = tmp_path / "link"
    file.write_text("what stood there before\n")
    Links(file, opens=False).tell("secret")
    assert file.read_text() == "http://127.0.0.1:0/sign-in#token=secret\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "sign-in#token=secret" in capsys.readouterr().out


def test_a_device_is_not_taken_for_a_link_file(tmp_path):
    """To make the file anew would remove the device."""
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("/dev/null", tmp_path, tmp_path / "device"):
        with pytest.raises(BadInput, match="not a regular file; name another"):
            Links(name, opens=False)
