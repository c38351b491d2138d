"""Progress bars are shown on terminals only."""

import io

import pytest
from rich.console import Console

from pmvge import progress
from pmvge.progress import ProgressBar, progress_bar
from pmvge.training import Callbacks, Constant, Record, training_progress
from pmvge.training.progress import TrainingBar

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def run(watching, *, first=0, validation=0.5, best=0.75, patience=None) -> None:
    """Report 30 steps in two seconds and one record, as the training loop does."""
    with Callbacks(watching) as watch:
        watch.start(first, Constant(100, patience))
        watch.step(first + 30, 2.0)
        watch.check(Record(first + 30, 1.0, -0.125, validation, 0.01, 2.0), best)


def shown(**options) -> str:
    """Return what a bar draws on a terminal, as plain text."""
    stream = io.StringIO()
    bar = TrainingBar(Console(file=stream, force_terminal=True, width=80, color_system=None))
    run([bar], **options)
    return stream.getvalue()


def test_the_bar_shows_steps_rate_and_scores() -> None:
    text = shown()
    for part in ("30/100", " 15/s", "validation 0.500, best 0.750"):
        assert part in text


def test_the_total_is_a_maximum_while_the_end_is_not_known() -> None:
    text = shown(patience=5)
    assert "30/≤100" in text
    assert "30/100" not in text


def test_a_resumed_run_counts_from_its_first_step() -> None:
    text = shown(first=40)
    assert "70/100" in text
    assert " 15/s" in text


def test_missing_scores_are_not_shown() -> None:
    text = shown(validation=None, best=None)
    assert "loss -0.125" in text
    assert "validation" not in text
    assert "best" not in text


def test_the_rate_is_zero_if_no_time_has_passed() -> None:
    stream = io.StringIO()
    bar = TrainingBar(Console(file=stream, force_terminal=True, width=120))
    bar.start(0, Constant(10))
    bar.step(1, 0.0)
    bar.end()
    assert " 0/s" in stream.getvalue()


def test_the_cursor_is_restored_when_training_fails() -> None:
    stream = io.StringIO()

    def fail() -> None:
        bar = TrainingBar(Console(file=stream, force_terminal=True, width=120))
        with Callbacks([bar]) as callbacks:
            callbacks.start(0, Constant(10))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stream.getvalue().rindex(SHOW_CURSOR) > stream.getvalue().rindex(HIDE_CURSOR)


@pytest.mark.parametrize("show", [True, False])
def test_no_training_bar_without_a_terminal(show, capfd, monkeypatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    watching = training_progress(show)
    assert watching == []
    run(watching)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("show", "kinds"), [(True, [TrainingBar]), (False, [])])
def test_training_progress_shows_a_bar_only_if_asked(show, kinds, monkeypatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert [type(callback) for callback in training_progress(show)] == kinds


def test_the_training_bar_is_written_to_stderr(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    run(training_progress(True))
    out, err = capsys.readouterr()
    assert out == ""
    assert "30/100" in err


class Clock:
    """A clock whose time the test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)


def test_a_bar_is_shown_after_one_second(clock) -> None:
    console = terminal()
    with ProgressBar("embedding [b] films", console) as on_progress:
        for done in range(10):
            on_progress(done, 10)
            clock.now += 0.09
        assert console.file.getvalue() == ""
        clock.now += 0.2
        on_progress(9, 10)
    text = console.file.getvalue()
    assert "embedding [b] films" in text  # brackets in names are not markup
    assert "90%" in text
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_a_bar_of_unknown_total_counts_rows(clock) -> None:
    console = terminal()
    with ProgressBar("embedding", console) as on_progress:
        clock.now += 2
        on_progress(1_234_567, None)
    assert "1,234,567 rows" in console.file.getvalue()


def test_a_bar_is_updated_at_intervals(clock) -> None:
    console = terminal()
    with ProgressBar("embedding", console) as on_progress:
        clock.now += 2
        on_progress(10, 100)
        clock.now += 0.05
        on_progress(20, 100)
        assert [task.completed for task in on_progress._bar.tasks] == [10]
        clock.now += 0.06
        on_progress(30, 100)
        assert [task.completed for task in on_progress._bar.tasks] == [30]


def test_no_bar_without_a_terminal(clock, capfd, monkeypatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with progress_bar("embedding", True) as on_progress:
        for done in range(5):
            clock.now += 2
            on_progress(done, 5)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_written_to_stderr_if_asked(clock, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress_bar("embedding", False) as on_progress:
        assert on_progress is None
    with progress_bar("embedding", True) as on_progress:
        clock.now += 2
        on_progress(1, 4)
    out, err = capsys.readouterr()
    assert out == ""
    assert "25%" in err


def test_the_cursor_is_restored_when_a_pass_fails(clock) -> None:
    console = terminal()

    def fail() -> None:
        with ProgressBar("embedding", console) as on_progress:
            clock.now += 2
            on_progress(0, 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    text = console.file.getvalue()
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)
