"""Environments for Python programs of others: made once, whole or not at all, and anew when their requirements change."""

import pytest
from tools.kube import environments

NOBODY = "nobody"  # requirements without packages: what is made is a bare environment, without a package index


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    file = tmp_path / f"{NOBODY}.txt"
    file.write_text("# nothing\n")
    return file


def test_a_missing_environment_is_an_error_that_names_the_command(requirements):
    with pytest.raises(environments.EnvironmentMissing, match=r"run `python tools/kube/environments.py`"):
        environments.require(NOBODY)


def test_an_environment_is_made_once_and_has_a_python_of_its_own(requirements):
    programs = environments.make(NOBODY)
    assert (programs / "python").exists()
    mark = programs.parent / "mark"
    mark.touch()
    assert environments.make(NOBODY) == environments.require(NOBODY) == programs
    assert mark.exists()


def test_one_that_was_cut_short_is_made_anew(requirements):
    cut = environments.folder(NOBODY)
    cut.mkdir(parents=True)
    (cut / "half").touch()
    environments.make(NOBODY)
    assert not (cut / "half").exists()


def test_other_requirements_get_an_environment_of_their_own_and_old_ones_go(requirements):
    made = []
    for number in range(environments.KEPT_MAX + 1):
        requirements.write_text(f"# {number}\n")
        made.append(environments.make(NOBODY).parent)
    assert len(set(made)) == len(made)
    assert len([each for each in made if each.exists()]) == environments.KEPT_MAX
    assert made[-1].exists()


def test_what_cannot_be_installed_leaves_no_environment_behind(requirements):
    requirements.write_text("six==1.17.0\n")  # without its hash
    with pytest.raises(environments.EnvironmentMissing, match="nobody could not be installed"):
        environments.make(NOBODY)
    with pytest.raises(environments.EnvironmentMissing):
        environments.require(NOBODY)
