"""The way in: other packages of our names, a service that is not installed, kernels kept apart."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import privaudit
from tests.support.environment import leave_out_foreign

ROOT = pathlib.Path(__file__).resolve().parents[1]


def started(*arguments: str, path: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "HOME": "/nonexistent"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, env=environment, cwd="/",
    )  # fmt: skip


START = "import privaudit, sys; sys.argv = ['privaudit', '--help']; privaudit.main()"


@pytest.mark.parametrize("package", privaudit.PACKAGES)
def test_another_package_of_our_name_is_named(package, tmp_path):
    other = tmp_path / package
    other.mkdir()
    (other / "__init__.py").touch()
    ran = started("-c", START, path=tmp_path)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"privaudit: Python finds {package} at {other}")
    assert ran.stderr.count("\n") == 1


def test_a_folder_of_our_name_without_init_hides_no_package(tmp_path):
    for package in privaudit.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "nightly.py").touch()
    assert started("-c", START, path=tmp_path).returncode == 0


def test_without_the_service_the_command_says_what_to_install():
    ran = started("-c", f"import sys; sys.modules['typer'] = None; {START}")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "privaudit: The command needs typer, which is not installed: install" in ran.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".env", "PREFECT_API_URL=http://evil.example"),
        ("prefect.toml", ""),
        ("pyproject.toml", "[tool.prefect.api]"),
        (".numba_config.yaml", "cache_dir: /tmp/evil"),
        (".pyiceberg.yaml", ""),
    ],
)
def test_files_of_others_that_libraries_obey_are_refused(name, content, tmp_path):
    """They say where Prefect's password goes, and in which folder lie pickles that numba runs."""
    path = tmp_path / name
    path.write_text(content)
    mine = {os.geteuid()}
    assert privaudit.foreign_settings(tmp_path, mine) == []
    (sentence,) = privaudit.foreign_settings(tmp_path, {os.geteuid() + 1})
    assert sentence.startswith(f"{path} in the working folder is another user's")
    path.chmod(0o666)
    assert len(privaudit.foreign_settings(tmp_path, mine)) == 1
    path.unlink()
    os.mkfifo(path, 0o666)
    path.chmod(0o666)
    assert len(privaudit.foreign_settings(tmp_path, mine)) == 1


def test_files_that_no_library_obeys_are_nobodys_business(tmp_path):
    (tmp_path / ".env").write_text("OTHER=1")
    (tmp_path / "pyproject.toml").write_text("[project]")
    assert privaudit.foreign_settings(tmp_path, {os.geteuid() + 1}) == []


def test_kernels_of_other_sources_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(privaudit, "HERE", tmp_path)
    assert privaudit.kernel_cache() is None
    (tmp_path / "pyproject.toml").touch()
    shutil.copytree(ROOT / "privcore" / "guarantees", tmp_path / "privcore" / "guarantees")
    before = privaudit.kernel_cache()
    assert before == privaudit.kernel_cache()
    called = tmp_path / "privcore" / "guarantees" / "families.py"
    called.write_text(called.read_text() + "\n")
    after = privaudit.kernel_cache()
    assert before != after
    called.rename(called.with_name("other.py"))
    assert privaudit.kernel_cache() not in {before, after}


def test_the_tests_use_the_kernels_of_these_sources():
    import numba  # noqa: PLC0415

    assert str(privaudit.kernel_cache()) == numba.config.CACHE_DIR


@pytest.mark.slow
def test_a_kernel_that_calls_a_changed_function_is_compiled_again(tmp_path):
    shutil.copy(ROOT / "privaudit.py", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    folder = tmp_path / "privcore"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "inner.py").write_text("from numba import njit\n@njit\ndef f():\n    return 1\n")
    (folder / "outer.py").write_text(
        "from numba import njit\nfrom privcore.inner import f\n"
        "@njit(cache=True)\ndef g():\n    return f() + 10\n"
    )
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import privaudit; "
        "privaudit.keep_kernels(); from privcore.outer import g; print(g())"
    )
    assert started("-c", script).stdout == "11\n"
    assert list((tmp_path / ".kernels").rglob("*.nbi"))
    inner = folder / "inner.py"
    # Of another length: Python's own cache knows a file by its length and its second alone.
    inner.write_text(inner.read_text().replace("return 1", "return 200"))
    assert started("-c", script).stdout == "210\n"


def test_no_test_sees_the_settings_of_the_person_who_runs_it():
    """The plugin that pytest loads first removes them."""
    shell = {"PRIVAUDIT_CONFIG": "mine.toml", "AWS_PROFILE": "mine", "PREFECT_API_URL": "mine"}
    shell |= {"RAY_ADDRESS": "mine", "MLFLOW_TRACKING_URI": "mine"}
    kept = {"PATH": "/bin", "AWS_CA_BUNDLE": "/ca.crt"}
    variables = shell | kept
    leave_out_foreign(variables)
    in_the_home = {name: value for name, value in variables.items() if name not in kept}
    assert variables == kept | in_the_home
    assert set(in_the_home.values()) == {os.devnull}
    assert not set(os.environ) & set(shell)


def test_kernels_of_somebody_else_are_not_run(tmp_path):
    mine = {os.geteuid()}
    for folder in ("", str(tmp_path / "none"), str(tmp_path)):
        assert privaudit.foreign_kernels(folder, mine) == []
    (sentence,) = privaudit.foreign_kernels(str(tmp_path), {os.geteuid() + 1})
    assert "NUMBA_CACHE_DIR" in sentence
    tmp_path.chmod(0o777)
    assert len(privaudit.foreign_kernels(str(tmp_path), mine)) == 1
