import os
import stat

import pytest

from pumice.errors import BadInput
from pumice.local.nodes.process.files import AtomicFolder, File, make_folder


def files(**contents):
    return {name: File(text.encode(), 0o644) for name, text in contents.items()}


def shown(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith("..")}


def test_files_appear_with_their_content_and_mode(tmp_path):
    folder = AtomicFolder(tmp_path / "v")
    folder.write({"a": File(b"one", 0o400), "deep/er/b": File(b"two", 0o640)})
    assert (tmp_path / "v" / "a").read_bytes() == b"one"
    assert (tmp_path / "v" / "deep" / "er" / "b").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "v" / "a").stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "v" / "deep" / "er" / "b").stat().st_mode) == 0o640


def test_a_rewrite_replaces_all_files_in_one_step_and_leaves_no_rest(tmp_path):
    folder = AtomicFolder(tmp_path)
    assert folder.write(files(a="1", b="1"))
    first = (tmp_path / "..data").readlink()
    held = (tmp_path / "a").open()
    assert folder.write(files(b="2", c="2"))
    assert shown(tmp_path) == {"b": "2", "c": "2"}
    assert held.read() == "1"  # who has it open keeps reading what it was
    held.close()
    assert (tmp_path / "..data").readlink() != first
    assert not (tmp_path / first).exists()


def test_a_rewrite_with_the_same_files_changes_nothing(tmp_path):
    folder = AtomicFolder(tmp_path)
    folder.write(files(a="1"))
    before = (tmp_path / "..data").readlink()
    assert not folder.write(files(a="1"))
    assert (tmp_path / "..data").readlink() == before


def test_an_empty_source_is_an_empty_folder(tmp_path):
    folder = AtomicFolder(tmp_path)
    folder.write({})
    assert shown(tmp_path) == {}


@pytest.mark.parametrize("name", ["../a", "/etc/a", "a/../../b", "..data/a", ""])
def test_a_path_that_leads_out_of_the_volume_is_refused(name, tmp_path):
    with pytest.raises(BadInput, match="must stay within the volume"):
        AtomicFolder(tmp_path).write({name: File(b"", 0o644)})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_with_its_mode_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        made = make_folder(tmp_path, "a/b", mode=0o777)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o777
    assert make_folder(tmp_path, "a/b") == made


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x"])
def test_a_folder_beyond_its_root_is_refused(path, tmp_path):
    with pytest.raises(BadInput, match="must lie within"):
        make_folder(tmp_path, path)


def test_a_link_on_the_way_is_refused(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(BadInput, match="cannot be made within"):
        make_folder(tmp_path / "inside", "link/x")
    assert list((tmp_path / "outside").iterdir()) == []
