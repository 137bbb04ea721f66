"""The command `privaudit`: finds its own packages, or says which others stand in their way."""

import hashlib
import importlib.util
import os
import pathlib
import stat
import sys

PACKAGES = ("privcore", "workers", "flows")
HERE = pathlib.Path(__file__).resolve().parent
OBEYED = {
    ".env": b"PREFECT_",
    "prefect.toml": b"",
    "pyproject.toml": b"prefect",
    ".numba_config.yaml": b"",
    ".pyiceberg.yaml": b"",
}
"""Files of the working folder that libraries obey, and the word without which they do not."""


def foreign_packages() -> list[str]:
    """Return a sentence for each of our packages that another one of its name hides.

    `flows` is what many Prefect projects call a folder of theirs.
    """
    sentences = []
    for package in PACKAGES:
        ours = HERE / package / "__init__.py"
        spec = importlib.util.find_spec(package)
        found = None if spec is None else spec.origin or str(spec.submodule_search_locations)
        if found is None or pathlib.Path(found).resolve() != ours:
            sentences.append(
                f"Python finds {package} at {found}, not at {ours}: take that folder off "
                "PYTHONPATH, or install privaudit in an environment of its own."
            )
    return sentences


def kernel_cache() -> pathlib.Path | None:
    """Return where a checkout's compiled kernels are kept; None where privaudit is installed.

    numba notices when a kernel's own file changes, and not when a function that it calls in another
    file does. So a folder serves one state of all sources.
    """
    if not (HERE / "pyproject.toml").exists():
        return None
    digest = hashlib.sha256()
    for file in sorted((HERE / "privcore").rglob("*.py")):
        digest.update(file.relative_to(HERE).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return HERE / ".kernels" / digest.hexdigest()[:16]


def keep_kernels() -> None:
    """Have numba keep a checkout's kernels in `kernel_cache`; before numba is imported."""
    folder = kernel_cache()
    if folder is not None:
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))


def foreign_settings(folder: pathlib.Path, users: set[int]) -> list[str]:
    """Return a sentence for each file that a library obeys where a command is started.

    Only for a file of somebody else, or one that everybody may write. It could say where Prefect's
    password goes, which server is the catalogue, or in which folder lie pickles that numba runs.

    Args:
        folder: in which the command is started.
        users: whose files are trusted.
    """
    sentences = []
    for name, about in OBEYED.items():
        path = folder / name
        try:
            found = path.lstat()
            plain = stat.S_ISREG(found.st_mode)
            if not _is_foreign(found, users) or (
                about and plain and about not in path.read_bytes()
            ):
                continue
        except OSError:
            continue
        sentences.append(
            f"{path} in the working folder is another user's, or everybody may change it, and "
            "libraries obey it: start privaudit in a folder of your own (--config names the "
            "settings), or take that file away."
        )
    return sentences


def foreign_kernels(folder: str, users: set[int]) -> list[str]:
    """Return a sentence where numba would run pickles of a folder that others may write.

    Who may write a checkout's own kernels may write its code, too.
    """
    try:
        if not folder or not _is_foreign(pathlib.Path(folder).stat(), users):
            return []
    except OSError:
        return []
    if pathlib.Path(folder) == kernel_cache():
        return []
    sentence = (
        f"NUMBA_CACHE_DIR names {folder}, which is another user's, or everybody may change it, "
        "and numba runs what lies there: name a folder of your own."
    )
    return [sentence]


def _is_foreign(found: os.stat_result, users: set[int]) -> bool:
    return found.st_uid not in users or bool(found.st_mode & 0o002)


def main() -> None:
    """Start the command line, or end with one sentence and exit code 3."""
    users = {0, os.geteuid()}
    foreign = [
        *foreign_packages(),
        *foreign_settings(pathlib.Path(), users),
        *foreign_kernels(os.environ.get("NUMBA_CACHE_DIR", ""), users),
    ]
    if foreign:
        sys.exit(_failed(foreign[0]))
    keep_kernels()
    # Of every process that is started from here, Prefect's server and Ray's workers among them: the
    # working folder is a team's own, and may have a json.py or a workers/.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        from flows.cli import main as command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in PACKAGES:
            raise
        sys.exit(
            _failed(
                f"The command needs {error.name}, which is not installed: install "
                "privaudit[tables] for one's own tables, or privaudit[service] for all commands."
            )
        )
    command()


def _failed(sentence: str) -> int:
    sys.stderr.write(f"privaudit: {sentence}\n")
    return 3


if __name__ == "__main__":
    main()
