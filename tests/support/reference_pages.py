"""Reference pages that are made from the code: `python -m tests.support.reference_pages`.

Commands and their options come from the command line itself, settings from the template that
`privaudit init` writes, verdicts and reasons from their enumerations and steps, and the Python
names from `privcore`. A test fails when a page is not up to date.
"""

import datetime as dt
import inspect
import pathlib
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import typer.main

import privcore
from flows.cli import app
from flows.commands.operate import TEMPLATE, _plan_lines
from flows.next_steps import CODES, exit_code, step_of
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from workers.exceptions import Reason
from workers.remark import RemarkKind

_COMMANDS = """\
This page is for everyone who types or schedules privaudit. After it you know every command, its
options and its exit codes. It is made by `make docs` from the command line itself; `privaudit
COMMAND --help` prints the same.

Commands that audit or judge end with the codes of [verdicts](verdicts.md). The others end with 0 if
all is well, 1 if something failed, differs or is missing, 2 if there is no answer, and 3 after an
error. Every command ends with 64 after wrong usage, and with 130 if it was interrupted."""
_VERDICTS = """\
This page is for everyone who reads a verdict or branches on an exit code. After it you know what
each one means, and what to do first. It is made by `make docs` from the code.

A record has tonight's `verdict`, its `reason_code`, a finer word (`detail`) and sentences
(`reason`). A model's verdict is `verdict_together`, with `reason_code_together`: that of its nights
together up to its own last record."""
_CODES = """\
Of several models the first of 1, 3, 2, 0 counts; an error of the command itself ends with 3. An
inconclusive model counts 2 by a doubt or an empty declaration, and 0 by its size alone (2 with
`--strict`). `gate --accept CODE` takes an inconclusive audit with that reason code for
`not_refuted`. `show` ends with 0."""
_REASONS = """\
`not_refuted` has no reason code. Of several reasons the first in this order counts: an empty
declaration, a doubt, the size. The last column has the exit code of `run`, `night`, `backfill`."""
_REMARKS = """\
Fixed words of the column `remarks`, for what the sentence says beside the verdict. None accuses
anybody, since an honest night may show each. A remark with a reason code is a doubt, a sign of a
mistake that may hide a leak: beside one, no audit is `not_refuted`."""
_PYTHON = """\
This page is for notebooks and pipelines that use `privcore`, the mathematics, alone. After it you
can audit a model without a lake, and know on which names you may rely. It is made by `make docs`.

The {names} names below can be imported from `privcore` and are supported
([compatibility](compatibility.md)); each has an example that tests run. All other names, in the
packages below `privcore`, are for research and may change."""
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference"


def _flat(text: str) -> str:
    """Return a text in one line of a table, with its markup escaped."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _options(command: Any) -> Iterator[str]:
    """Yield a row for each option and argument."""
    context = command.context_class(command)
    for one in command.params:
        record = one.get_help_record(context)
        if record is None or "--help" in one.opts:
            continue
        needed = "required" if one.required else ""
        described = re.sub(r"  \[(default: )?(.*?)\]$", "", record[1])
        default = "" if one.default in (None, False, (), "") else f"`{_flat(str(one.default))}`"
        names = record[0].replace("|", "\\|")
        yield f"| `{names}` | {_flat(described)} | {needed or default} |"


def commands() -> str:
    """Return the page of commands."""
    group: Any = typer.main.get_command(app)
    lines = ["# Commands", "", _COMMANDS]
    for name, command in _leaves(group, "privaudit"):
        lines += ["", f"## {name}", "", _paragraphs(command.help or "")]
        if rows := list(_options(command)):
            lines += ["", "| option | meaning | default |", "| --- | --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name in sorted(inner):
        if not inner[name].hidden:
            yield from _leaves(inner[name], f"{path} {name}")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def settings() -> str:
    """Return the page of settings."""
    template = TEMPLATE.replace("{plan}", _plan_lines()).replace("{#}", "# ")
    return f"""# Settings

This page is for everyone who writes `privaudit.toml`. After it you know every key. It is made by
`make docs` from the file that `privaudit init` writes. An unknown key is refused by name, and
`privaudit check` tries all of it.

```toml
{template.strip()}
```
"""


def verdicts() -> str:
    """Return the page of verdicts, exit codes and reasons."""
    lines = ["# Verdicts, exit codes and reasons", "", _VERDICTS, ""]
    lines += ["| verdict | meaning | `run`, `night`, `backfill` | `gate` |"]
    lines += ["| --- | --- | --- | --- |"]
    for verdict in Verdict:
        ends = {
            exit_code([(verdict, code)])
            for code in (None, *ReasonCode)
            if (verdict if code is None else code.verdict) is verdict
        }
        codes = " or ".join(map(str, sorted(ends)))
        lines.append(f"| `{verdict}` | {verdict.meaning} | {codes} | {CODES[verdict]} |")
    lines += ["", _CODES, "", "## Reasons", "", _REASONS, ""]
    lines += ["| verdict | `reason_code` | what it means | first step (who) | `detail` | exit |"]
    lines += ["| --- | --- | --- | --- | --- | --- |", *map(_reason, ReasonCode)]
    lines += ["", "## Remarks", "", _REMARKS, ""]
    lines += ["| remark | what it says | `reason_code` |", "| --- | --- | --- |"]
    lines += [
        f"| `{kind}` | {kind.meaning} | {f'`{kind.code}`' if kind.code else ''} |"
        for kind in RemarkKind
    ]
    return "\n".join(lines) + "\n"


def _reason(code: ReasonCode) -> str:
    """Return the row of a reason."""
    row: Any = SimpleNamespace(
        epsilon_lower=None,
        audit_id="AUDIT_ID",
        model="MODEL",
        day=dt.date(2026, 3, 2),
        holdout_needed=None,
        control_records=None,
    )
    step = step_of(code, row)
    finer = ", ".join(f"`{word}`" for word in (*Reason, *RemarkKind) if word.code is code)
    end = exit_code([(code.verdict, code)])
    return (
        f"| `{code.verdict}` | `{code}` | {code.meaning} | {_flat(step.text)} ({step.role}) "
        f"| {finer} | {end} |"
    )


def python() -> str:
    """Return the page of the Python names that are supported."""
    lines = [
        "# Python",
        "",
        _PYTHON.format(names=len(privcore.__all__)),
        "",
        "```python",
        "from privcore import Arm, audit_probabilities",
        "```",
    ]
    for module, names in _by_module():
        lines += ["", f"## {_TITLES[module]}", "", "| name | purpose |", "| --- | --- |"]
        for name in names:
            summary = (inspect.getdoc(getattr(privcore, name)) or "").split("\n\n")[0]
            lines.append(f"| [`{name}`](#privcore.{name}) | {_flat(summary)} |")
    lines += ["", "## Signatures and examples", ""]
    for _, names in _by_module():
        for name in names:
            kind = "autoclass" if inspect.isclass(getattr(privcore, name)) else "autofunction"
            lines += ["```{eval-rst}", f".. {kind}:: privcore.{name}", "```"]
    return "\n".join(lines) + "\n"


_TITLES = {
    "lower_bounds": "Audit a model, and prove lower bounds",
    "attacks": "Games",
    "guarantees": "Guarantees and their accounting",
    "mechanisms": "Mechanisms for labels",
    "upper_bounds": "Promises of a guarantee",
}


def _by_module() -> Iterator[tuple[str, list[str]]]:
    for module in _TITLES:
        found = [n for n in privcore.__all__ if n in _exported(module)]
        yield module, sorted(found, key=str.lower)


def _exported(module: str) -> set[str]:
    stub = pathlib.Path(privcore.__file__ or "").with_name("__init__.pyi").read_text("utf-8")
    (block,) = re.findall(rf"from \.{module} import \(?([^)]*?)(?:\)|\n\n)", stub, re.DOTALL)
    return set(re.findall(r"\w+", block))


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "settings.md": settings,
    "verdicts.md": verdicts,
    "python.md": python,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
