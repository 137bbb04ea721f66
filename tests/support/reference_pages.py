"""Reference pages that are made from the code: `python -m tests.support.reference_pages`.

Commands and their options come from the command line itself, settings from the template that
`privaudit init` writes, verdicts and reasons from their enumerations and steps, and the Python
names from `privcore`. What else a page says is written in it, and stays. A test fails when a page
is not up to date.
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

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference"


def _until(name: str, mark: str) -> str:
    """Return the beginning of a page, up to what is made from the code."""
    return (FOLDER / name).read_text(encoding="utf-8").partition(mark)[0]


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
    lines = [_until("commands.md", "\n\n## ")]
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
    return f"{_until('settings.md', '```toml')}```toml\n{template.strip()}\n```\n"


def verdicts() -> str:
    """Return the page of verdicts, exit codes and reasons: its three tables are made."""
    made = {
        "verdict | meaning": map(_verdict, Verdict),
        "verdict | `reason_code`": map(_reason, ReasonCode),
        "remark": (
            f"| `{kind}` | {kind.meaning} | {f'`{kind.code}`' if kind.code else ''} |"
            for kind in RemarkKind
        ),
    }
    text = (FOLDER / "verdicts.md").read_text(encoding="utf-8")
    for header, rows in made.items():
        lines = "".join(f"{row}\n" for row in rows)
        table = re.compile(rf"^(\| {re.escape(header)} \|.*\n.*\n)(?:\|.*\n)*", re.MULTILINE)
        text = table.sub(lambda found, lines=lines: found[1] + lines, text)
    return text


def _verdict(verdict: Verdict) -> str:
    """Return the row of a verdict."""
    ends = {
        exit_code([(verdict, code)])
        for code in (None, *ReasonCode)
        if (verdict if code is None else code.verdict) is verdict
    }
    codes = " or ".join(map(str, sorted(ends)))
    return f"| `{verdict}` | {verdict.meaning} | {codes} | {CODES[verdict]} |"


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
    beginning = _until("python.md", "\n\n## ")
    lines = [re.sub(r"\d+ names", f"{len(privcore.__all__)} names", beginning, count=1)]
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
