from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys

import pytest
from tools.kube import build

A_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go{version}; exit 0; fi
{build}
"""
WRITES_ITS_LAST_ARGUMENT = 'while [ "$1" != -o ]; do shift; done; echo "$3" > "$2"; chmod +x "$2"'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pumice" / "kube"


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of tools/kube that a test may change."""
    copy = tmp_path / "sources"
    shutil.copytree(build.HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build, "HERE", copy)
    return copy


@pytest.fixture
def go_on_path(tmp_path, monkeypatch):
    def install(*, version="1.26.0", does=WRITES_ITS_LAST_ARGUMENT):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "go").write_text(A_GO.format(version=version, build=does))
        (folder / "go").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return str(folder / "go")

    return install


def digests():
    return {b.name: build._digest(b) for b in build.BINARIES}


def test_missing_binaries_are_an_error_that_names_the_command(cache):
    with pytest.raises(build.BuildError, match=r"etcd, kubectl, .* missing\): run `python tools/kube/build.py`"):
        build.require()


def test_every_binary_is_built_once_and_found_in_one_folder(cache, go_on_path):
    go_on_path()
    folder = build.build()
    assert folder == build.require() == build.binaries_folder()
    assert folder.name.startswith("v1.36.1-")
    assert {f.name for f in folder.iterdir()} == {b.name for b in build.BINARIES}
    assert (folder / "kubectl").read_text() == "k8s.io/kubernetes/cmd/kubectl\n"
    go_on_path(does="exit 1")
    assert build.build() == folder


def test_a_changed_oracle_rebuilds_the_oracle_alone(sources, cache, go_on_path):
    go_on_path()
    first, before = build.build(), digests()
    with (sources / "oracle" / "main.go").open("a") as source:
        source.write("// changed\n")
    changed = {name for name, digest in digests().items() if digest != before[name]}
    assert changed == {"oracle"}
    second = build.build()
    assert second != first
    assert (second / "etcd").resolve() == (first / "etcd").resolve()


def test_a_changed_pin_of_kwok_rebuilds_kwok_alone(sources):
    before = digests()
    with (sources / "kwok" / "go.sum").open("a") as sums:
        sums.write("example.invalid/x v1.0.0 h1:x\n")
    assert {name for name, digest in digests().items() if digest != before[name]} == {"kwok"}


def test_a_failed_build_shows_what_go_said_and_leaves_no_file(cache, go_on_path):
    go_on_path(does="echo 'main.go:1: no such thing' >&2; exit 1")
    with pytest.raises(build.BuildError, match=r"(?s)main.go:1: no such thing.*etcd could not be built"):
        build.build()
    assert list((cache / "store").iterdir()) == []


def test_what_go_would_take_from_the_user_is_left_alone_and_what_decides_the_result_is_not(monkeypatch):
    monkeypatch.setenv("GOFLAGS", "-x")
    monkeypatch.setenv("CGO_ENABLED", "1")
    environment = build._go_environment()
    assert environment["GOFLAGS"] == "-x"
    assert environment["CGO_ENABLED"] == "0"


@pytest.mark.parametrize("version", ["1.26.0", "1.26.8", "1.27rc1", "1.30.1"])
def test_a_go_on_path_is_used_when_it_is_new_enough(go_on_path, version):
    go = go_on_path(version=version)
    assert build.go_command() == go


def test_an_old_go_on_path_is_passed_over_for_the_one_from_the_package_index(go_on_path, monkeypatch):
    go_on_path(version="1.25.9")
    monkeypatch.setattr(build, "_go_from_package_index", lambda: "from the index")
    assert build.go_command() == "from the index"


def test_a_second_builder_waits_for_the_first(cache, go_on_path):
    go_on_path()
    cache.mkdir(parents=True)
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, build.HERE / "build.py"], stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr.readline() == "kube: another build is under way: waiting for it\n"
            assert not build.binaries_folder().exists()
            fcntl.flock(lock, fcntl.LOCK_UN)
            second.stderr.read()
    assert second.returncode == 0
    assert build.require()


def test_only_the_last_used_combinations_stay_in_the_cache(sources, cache, go_on_path):
    go_on_path()
    folders = []
    for n in range(build.FOLDERS_MAX + 1):
        with (sources / "oracle" / "main.go").open("a") as source:
            source.write(f"// {n}\n")
        folders.append(build.build())
        os.utime(folders[-1], (n, n))
    assert [f.exists() for f in folders] == [False] + [True] * build.FOLDERS_MAX
    assert len(list((cache / "store").glob("oracle-*"))) == build.FOLDERS_MAX
    assert len(list((cache / "store").glob("etcd-*"))) == 1
