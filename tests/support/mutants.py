"""Does a test notice when a number changes? One small change after the other is tried.

    python -m tests.support.mutants                   all modules of `TESTS`
    python -m tests.support.mutants betting matched   some of them
    python -m tests.support.mutants kernels --from 182 --to 364    of a long one, a part
    python -m tests.support.mutants arms --sample 60 --seed 31     of each, so many at random

Each mutant runs in a process of its own, forked from one that has imported the libraries, against
the tests that `TESTS` names, the quick ones first; the first failure ends it. What survives is
printed as a difference, to be killed by a test or listed in `docs/evidence/reliability.md` with why
it changes nothing.
"""

import argparse
import ast
import copy
import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from types import ModuleType

import hypothesis
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
_BOUNDS = "tests/privcore/lower_bounds"
_PUBLICATION = "tests/privcore/publication"
_ATTACKS = "tests/privcore/attacks"
_SCAN = "tests/workers/scan"
_NUMBERS = f"{_BOUNDS}/test_method_numbers.py"
_LISTED = {
    "privcore/lower_bounds": (
        "verdicts evidence matched betting windows notebook claims game_evidence fdp kernels"
    ),
    "privcore/attacks": "matching arms odds",
    "workers/scan": ("fitted before_the_pass work_unit partial_results label_pass"),
    "workers/audit": "declaration",
    "workers/warehouse": "night_windows",
}
_WITHOUT_NUMBERS = {
    "privcore/publication": "keyed_noise noisy_wealth statement",
    "privcore/attacks": (
        "student tallies unit_records segments oblivious_trees related_rows "
        "holdout_suspicion query_reconstruction"
    ),
    "privcore/lower_bounds": "notebook_input segment_bounds",
    "privcore/mechanisms": "local_sensitivity",
}
_OTHERS = {
    "evidence": (f"{_BOUNDS}/test_verdicts.py", f"{_BOUNDS}/test_secrets.py"),
    "matching": (f"{_ATTACKS}/test_matching.py", f"{_ATTACKS}/test_arms.py"),
    "before_the_pass": tuple(
        f"{_SCAN}/test_{name}.py" for name in ("before_the_pass", "row_draw_look")
    ),
    "claims": tuple(f"{_BOUNDS}/test_{name}.py" for name in ("claims", "verdicts", "secrets")),
    "odds": (f"{_ATTACKS}/test_odds.py", f"{_ATTACKS}/test_matching.py"),
    "kernels": (f"{_BOUNDS}/test_fdp.py",),
    "noisy_wealth": (f"{_PUBLICATION}/test_noisy_wealth.py", f"{_PUBLICATION}/test_statement.py"),
    "tallies": (f"{_ATTACKS}/test_tallies.py", f"{_ATTACKS}/test_arms.py"),
    "holdout_suspicion": (
        f"{_ATTACKS}/test_holdout_suspicion.py", f"{_BOUNDS}/test_notebook.py",
    ),
}  # fmt: skip
"""What notices changes of a module, where that is not the file of its name alone."""


def _tests(listed: Mapping[str, str], first: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    return {
        f"{folder}/{name}.py": (
            *(first if folder.startswith("privcore") else ()),
            *_OTHERS.get(name, (f"tests/{folder}/test_{name}.py",)),
        )
        for folder, names in listed.items()
        for name in names.split()
    }


TESTS = _tests(_LISTED, (_NUMBERS,)) | _tests(_WITHOUT_NUMBERS)
"""The modules whose every change must be noticed, and the tests that are to notice."""

_SLOW = "slow and not soak"
_LIBRARIES = (
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "numba",
    "dp_accounting",
    "polars",
    "deltalake",
)
_ADDED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_ADDED |= {ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult}
_ADDED |= {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
_COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_NO_NUMBERS = {"frozen", "slots", "eq", "cache", "nogil", "strict", "default"}
"""Arguments of decorators and of `zip`, whose change is one of style or of speed."""
_CALLED = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "cumsum": "cumprod",
    "minimum": "maximum", "maximum": "minimum", "zeros": "ones", "ones": "zeros",
    "bisect_left": "bisect_right", "bisect_right": "bisect_left", "argmax": "argmin",
}  # fmt: skip


def mutants(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield the module with one thing changed, once for each change that this file knows."""
    no_number = {
        id(word.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in _NO_NUMBERS
    }
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in no_number:
            continue
        for replacement in _replacements(node):
            changed = copy.deepcopy(tree)
            found = next(one for i, one in enumerate(ast.walk(changed)) if i == place)
            for name, value in replacement.items():
                setattr(found, name, value)
            yield changed


def _replacements(node: ast.AST) -> Iterator[Mapping[str, object]]:
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _ADDED:
            yield {"op": _ADDED[type(op)]()}
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            yield from ({"ops": [other()]} for other in _COMPARED[type(op)])
        case ast.BoolOp(op=op):
            yield {"op": ast.Or() if isinstance(op, ast.And) else ast.And()}
        case ast.UnaryOp(op=ast.USub()):
            yield {"op": ast.UAdd()}
        case ast.IfExp(body=body, orelse=orelse):
            yield {"body": orelse, "orelse": body}
        case ast.Constant(value=value):
            yield from ({"value": other} for other in _other_values(value))
        case ast.Name(id=name) if name in _CALLED:
            yield {"id": _CALLED[name]}
        case ast.Attribute(attr=name) if name in _CALLED:
            yield {"attr": _CALLED[name]}


def _other_values(value: object) -> tuple[object, ...]:
    match value:
        case bool():
            return (not value,)
        case int():
            return (value + 1, value - 1) if value > 1 else (value + 1,)
        case float():
            return (2.0 * value, 0.5 * value) if value else (1.0,)
    return ()


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another file than its own: numba caches by the file's name."""

    def __init__(self, module: str, path: pathlib.Path) -> None:
        self._module, self._path = module, path

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        return (
            importlib.util.spec_from_file_location(name, self._path)
            if name == self._module
            else None
        )


def survives(
    path: str, source: str, tests: tuple[str, ...], *, seconds: int, tier: str = "not slow"
) -> bool:
    """Run the tests on a changed module; whether none of them failed. Too slow is noticed, too."""
    with tempfile.TemporaryDirectory() as folder:
        changed = pathlib.Path(folder) / pathlib.Path(path).name
        changed.write_text(source)
        child = os.fork()
        if not child:
            signal.alarm(seconds)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            sys.meta_path.insert(0, _Mutated(path.removesuffix(".py").replace("/", "."), changed))
            # Without the shared fixtures, which import the whole control plane.
            bare = ["--noconftest"] if path.startswith("privcore") else []
            answer = pytest.main(["-xqm", tier, "-p", "no:cacheprovider", *bare, *tests])
            os._exit(int(answer))
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) in {0, pytest.ExitCode.NO_TESTS_COLLECTED}


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if re.match(r"[-+@](?![-+])", line))


def main() -> None:
    """Try every mutant of the wanted modules, and print which survive."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("modules", nargs="*")
    arguments.add_argument("--from", dest="first", type=int, default=1)
    arguments.add_argument("--to", dest="last", type=int, default=sys.maxsize)
    arguments.add_argument("--sample", type=int)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    wanted = given.modules
    for library in _LIBRARIES:
        importlib.import_module(library)
    os.chdir(ROOT)
    hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
    hypothesis.settings.load_profile("repeatable")
    for path, tests in TESTS.items():
        if wanted and pathlib.Path(path).stem not in wanted:
            continue
        tree = ast.parse(pathlib.Path(path).read_text())
        before = ast.unparse(tree)
        began = time.monotonic()
        if not survives(path, before, tests, seconds=600):
            sys.exit(f"{path}: its tests fail without any change.")
        allowed = int(10 * (time.monotonic() - began)) + 30
        if not survives(path, before, tests, seconds=600, tier=_SLOW):
            sys.exit(f"{path}: its slow tests fail without any change, or take ten minutes.")
        left = []
        changed = (ast.unparse(ast.fix_missing_locations(mutant)) for mutant in mutants(tree))
        numbered = list(enumerate((after for after in changed if after != before), start=1))
        chosen = numbered[given.first - 1 : given.last]
        if given.sample is not None and given.sample < len(chosen):
            stream = np.random.default_rng(given.seed)
            places = stream.choice(len(chosen), given.sample, replace=False)
            chosen = [chosen[place] for place in sorted(places)]
        for number, after in chosen:
            if survives(path, after, tests, seconds=allowed) and survives(
                path, after, tests, seconds=600, tier=_SLOW
            ):
                left.append(_difference(before, after))
                print(f"{path} {number}\n{left[-1]}", flush=True)  # noqa: T201
        print(  # noqa: T201
            f"{path}: {len(chosen)} of {len(numbered)} tried, {len(left)} survived", flush=True
        )


if __name__ == "__main__":
    main()
