"""Tables are aligned text in a pipe, and show names as they are on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from zoo.workflows.console import print_facts, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Return what a function prints on a terminal of 80 columns."""

    def shown(function, *args) -> str:
        with monkeypatch.context() as patch:
            for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1"), ("TERM", "dumb")):
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", Terminal())
            function(*args)
            return sys.stdout.getvalue()

    return shown


def test_plain_table_in_a_pipe(capsys):
    print_table(("model", "rmse", "note"), [("dmpnn", 2.25, None), ("random-forest", 10, "slow")], "test part")
    assert capsys.readouterr().out == (
        "test part\n"
        "model          rmse  note\n"
        "-------------  ----  ----\n"
        "dmpnn          2.25\n"
        "random-forest    10  slow\n"
    )


def test_numbers_have_four_digits_and_text_columns_stand_left(capsys):
    print_table(("a", "b"), [(0.123456, "1"), (1234567.0, "22")])
    assert capsys.readouterr().out.splitlines()[2:] == ["   0.1235  1", "1.235e+06  22"]


def test_a_table_without_rows(capsys):
    print_table(("a", "b"), [])
    assert capsys.readouterr().out == "a  b\n-  -\n"


def test_terminal_shows_brackets_as_they_are(on_terminal):
    shown = on_terminal(print_table, ("smiles", "n"), [("[Na+].[Cl-]", 2), ("[bold]", 1)])
    assert "[Na+].[Cl-]" in shown
    assert "[bold]" in shown
    assert "───" in shown, "drawn by rich"


def test_terminal_folds_long_cells_without_losing_a_letter(on_terminal):
    shown = on_terminal(print_table, ("name", "text"), [("x", "abcdefghij" * 20)])
    assert sum(shown.count(letter) for letter in "hij") == 60
    assert max(map(len, shown.splitlines())) <= 80


def test_facts_leave_out_what_is_empty(capsys):
    print_facts([("task", "x"), ("about", ""), ("domain", "molecules")])
    assert capsys.readouterr().out == "task    x\ndomain  molecules\n"


def test_facts_on_a_terminal_wrap_beside_their_name(on_terminal):
    shown = on_terminal(print_facts, [("task", "[x]"), ("about", "word " * 30)]).splitlines()
    assert shown[0].split() == ["task", "[x]"]
    assert len(shown) > 2
    assert all(line.startswith("       word") for line in shown[2:]), "the text stays in its column"
