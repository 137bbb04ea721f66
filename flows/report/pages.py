"""The report's files: their names, how one is replaced, and which are taken away."""

import hashlib
import pathlib
from collections.abc import Iterable

from flows.files import read_plain, replace_file
from workers.exceptions import NotEvaluableError
from workers.lake.layout import check_name

INDEX = "index.html"
STATISTICS = "statistics.html"
MODELS = "models"

MARK = '<meta name="generator" content="privaudit">'
"""Tells our pages from a person's own: only ours are ever removed."""


def report_folder(folder: str | pathlib.Path, *, mode: int) -> pathlib.Path:
    """Return the report's folder, made with this mode if it is missing."""
    root = pathlib.Path(folder)
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=mode, exist_ok=True)
    models = root / MODELS
    if models.is_symlink():  # who may write to the report must not choose which folder we write to
        models.unlink()
    models.mkdir(exist_ok=True)
    return root


def page_name(model: str) -> str:
    """Return the file name of a model's page, whatever the model is called."""
    try:
        return f"{check_name('model', model)}.html"
    except NotEvaluableError:
        return _digest_name(model)


def page_names(models: Iterable[str]) -> dict[str, str]:
    """Return the file name of each model's page; all differ, also where case does not count.

    >>> page_names(["ads", "Ads"])
    {'Ads': 'Ads.html', 'ads': 'model-788eb2efc52660fe.html'}
    """
    names: dict[str, str] = {}
    for model in sorted(models):
        taken = {name.casefold() for name in names.values()}
        name, digest = page_name(model), model
        while name.casefold() in taken:  # a model may be called like the digest of another's name
            name, digest = _digest_name(digest), _digest_name(digest)
        names[model] = name
    return names


def _digest_name(model: str) -> str:
    return f"model-{hashlib.sha256(model.encode()).hexdigest()[:16]}.html"


def replace_page(path: pathlib.Path, text: str) -> None:
    """Replace a page as a whole."""
    replace_file(path, text.encode())


def remove_others(folder: pathlib.Path, kept: set[str]) -> None:
    """Remove our own pages of models that are gone: a stale verdict is a wrong one."""
    for path in folder.glob("*.html"):
        content = read_plain(path)
        if content is None or MARK.encode() not in content[:2000]:
            continue
        # Where case does not count, one of ours may be called as it was first.
        same = [folder / name for name in kept if name.casefold() == path.name.casefold()]
        if any(other.exists() and other.samefile(path) for other in same):
            continue
        if path.name not in kept:
            path.unlink()
