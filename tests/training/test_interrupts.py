"""Ctrl-C, noted and put off: by real signals."""

import os
import signal
import threading

import pytest

from pmvge.training import terminate_as_interrupted
from pmvge.training.interrupts import deferred_interrupt


def press():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def usual():
    """Python's own handler, as in a terminal; afterwards what was there before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interruption_is_noted_and_nothing_is_interrupted(usual):
    with deferred_interrupt() as interrupted:
        assert not interrupted()
        press()
        assert interrupted()
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is usual


def test_without_one_nothing_is_noted(usual):
    with deferred_interrupt() as interrupted:
        pass
    assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is usual


def test_a_second_one_interrupts(usual):
    def twice():
        with deferred_interrupt() as interrupted:
            press()
            assert interrupted()
            press()

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is usual


def test_after_an_error_all_is_as_before(usual):
    with pytest.raises(ZeroDivisionError), deferred_interrupt():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is usual
    with pytest.raises(KeyboardInterrupt):
        press()


def test_where_it_is_not_wanted_an_interruption_interrupts():
    with pytest.raises(KeyboardInterrupt), deferred_interrupt(False):
        press()


def test_a_handler_of_somebody_else_stays():
    heard = []

    def theirs(number, frame):
        heard.append(number)

    signal.signal(signal.SIGINT, theirs)
    with deferred_interrupt() as interrupted:
        press()
        assert signal.getsignal(signal.SIGINT) is theirs
        assert not interrupted()
    assert heard == [signal.SIGINT]


def test_another_thread_leaves_signals_alone(usual):
    found = []

    def work():
        with deferred_interrupt() as interrupted:
            found.append((interrupted(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, usual)]


@pytest.fixture
def terminated():
    """Somebody who sends SIGTERM where Ctrl-C is ignored, as in jobs that a script has started."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate_as_interrupted()
    yield lambda: os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def test_sigterm_interrupts_also_where_ctrl_c_is_ignored(terminated):
    press()
    with pytest.raises(KeyboardInterrupt):
        terminated()


def test_sigterm_is_put_off_too(terminated):
    with deferred_interrupt() as interrupted:
        press()
        assert not interrupted()
        terminated()
        assert interrupted()
    with pytest.raises(KeyboardInterrupt):
        terminated()
