"""Reports of a watched run, read from the other end of its pipe."""

import os

from flows.ledger import Ledger, report_to_watcher, reporting

PLANNED = {"planned": [("a", "2026-03-02", None), ("b", "2026-03-02", {"seed": 7})]}


def test_what_was_planned_and_committed_is_read_as_it_was_reported() -> None:
    reader, writer = os.pipe()
    with reporting(writer):
        report_to_watcher(settings="here.toml", **PLANNED)
        report_to_watcher(committing=[("7f", "a", "2026-03-02", "label")])
        report_to_watcher(committed=("a", "2026-03-02"))
        report_to_watcher(announced="7f")
        report_to_watcher(why="Something ended it.")
        report_to_watcher(code=3)
    os.close(writer)
    report_to_watcher(code=0)  # nobody watches any more
    with open(reader, "rb") as reported:  # noqa: PTH123  # a descriptor
        ledger = Ledger.read(list(reported))
    assert ledger.settings == "here.toml"
    assert ledger.committed == [("a", "2026-03-02")]
    assert ledger.planned == {("a", "2026-03-02"): None, ("b", "2026-03-02"): {"seed": 7}}
    assert ledger.committing == {"7f": ("a", "2026-03-02", "label")}
    assert ledger.announced == {"7f"}
    assert (ledger.why, ledger.code) == ("Something ended it.", 3)


def test_a_line_that_was_cut_is_no_event() -> None:
    ledger = Ledger.read([b'{"committed": ["a", "2026-03-02"]}\n', b'{"code": 0}'])
    assert ledger.committed == [("a", "2026-03-02")]
    assert (ledger.why, ledger.code, ledger.planned) == (None, None, {})
