"""Files that people name are read up to a limit, whatever they are."""

import io
import tracemalloc

import pytest

from pumice import files
from pumice.cli import input_files
from pumice.errors import BadInput


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "/dev/urandom"])
def test_a_device_without_an_end_is_refused(name):
    with pytest.raises(OSError, match="larger than 1000 bytes"):
        files.read(name, 1000)


def test_a_file_may_have_as_many_bytes_as_the_limit_says_and_no_more(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1001)
    assert files.read(tmp_path / "file", 1001) == b"x" * 1001
    with pytest.raises(OSError, match="larger than 1000 bytes"):
        files.read(tmp_path / "file", 1000)


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1000)
    tracemalloc.start()
    files.read(tmp_path / "file", 2**40)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * files.PART_BYTES


def test_a_file_of_several_parts_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PART_BYTES", 300)
    (tmp_path / "file").write_bytes(bytes(range(250)) * 4)
    assert files.read(tmp_path / "file", 1000) == bytes(range(250)) * 4
    with pytest.raises(OSError, match="larger than 999 bytes"):
        files.read(tmp_path / "file", 999)


def test_standard_input_is_refused_and_not_cut_off(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x" * 1001)))
    with pytest.raises(BadInput, match="standard input: cannot be read: larger than 1000 bytes; split it"):
        input_files.read_file_or_stdin("-", 1000)


def test_a_file_that_is_too_large_is_to_be_split_and_one_that_cannot_be_opened_to_be_looked_at(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1001)
    with pytest.raises(BadInput, match="file: cannot be read: larger than 1000 bytes; split it into several files"):
        input_files.read_file(tmp_path / "file", 1000)
    with pytest.raises(BadInput, match="cannot be read: Is a directory; check the name and your rights"):
        input_files.read_file(tmp_path, 1000)


def test_standard_input_that_is_closed_is_said_to_be(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(BadInput, match="standard input: it is closed; name a file"):
        input_files.read_file_or_stdin("-", 1000)
