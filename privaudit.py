"""The command `privaudit`: finds its own packages, or says which others stand in their way."""

import hashlib
import importlib.util
import os
import pathlib
import sys

PACKAGES = ("privcore", "workers", "flows")
HERE = pathlib.Path(__file__).resolve().parent


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


def main() -> None:
    """Start the command line, or end with one sentence and exit code 3."""
    foreign = foreign_packages()
    if foreign:
        sys.exit(_failed(foreign[0]))
    keep_kernels()
    # Of every process that is started from here, Prefect's server and Ray's workers among them: the
    # working folder is a team's own, and may have a json.py or a workers/.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        import flows.cli  # noqa: F401, PLC0415  # what it needs is missed here, before any fork
        from flows.supervisor import main as command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in PACKAGES:
            raise
        sys.exit(
            _failed(
                f"The command needs {error.name}, which is not installed: install "
                "privaudit[service] (privcore alone needs no more than privaudit)."
            )
        )
    command()


def _failed(sentence: str) -> int:
    sys.stderr.write(f"privaudit: {sentence}\n")
    return 3


if __name__ == "__main__":
    main()
