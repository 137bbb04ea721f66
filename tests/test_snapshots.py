"""The files of sentences beside tests: each entry is one test's, and a changed word is noticed."""

import ast

import pytest

from tests.support.snapshots import check, read
from tests.test_architecture import ROOT

FILES = [file for file in (ROOT / "tests").rglob("test_*.txt") if file.with_suffix(".py").exists()]


def test_a_changed_word_and_a_missing_entry_are_noticed(tmp_path):
    file = tmp_path / "test_words.txt"
    check(file, "test_one", ("It is so.", "It is not."), writing=True)
    check(file, "test_another", ("It may be.",), writing=True)
    check(file, "test_one", ("It is so.", "It is not."))
    for other in (("It is so.",), ("It is so.", "It is!"), ("It is not.", "It is so.")):
        with pytest.raises(AssertionError, match="if it is meant"):
            check(file, "test_one", other)
    with pytest.raises(AssertionError, match="no entry 'test_third'"):
        check(file, "test_third", ("It may be.",))
    assert list(read(file)) == ["test_another", "test_one"]


def test_sentences_that_would_be_read_back_otherwise_are_refused(tmp_path):
    for words in ((), ("== so",), ("two\nlines",)):
        with pytest.raises(AssertionError):
            check(tmp_path / "test_words.txt", "test_one", words, writing=True)


def test_a_test_holds_its_sentences_once(hold_sentences, request, monkeypatch):
    assert callable(hold_sentences)
    monkeypatch.setattr("tests.support.snapshots.read", lambda _: {request.node.name: ("So.",)})
    hold_sentences("So.")
    with pytest.raises(IndexError):
        hold_sentences("So.")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_entry_is_of_a_test_that_holds_it(file):
    body = ast.parse(file.with_suffix(".py").read_text(encoding="utf-8")).body
    holding = {
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef)
        and "hold_sentences" in {argument.arg for argument in node.args.args}
    }
    assert {entry.partition("[")[0] for entry in read(file)} == holding


def test_there_are_such_files():
    assert FILES
