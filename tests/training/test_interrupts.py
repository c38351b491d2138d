"""Deferred interrupts, tested with real signals."""

import os
import signal
import threading

import pytest

from pmvge.training.interrupts import deferred_interrupt


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler():
    """Install Python's default handler; restore the previous one afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_recorded_and_not_raised(default_handler):
    with deferred_interrupt() as interrupted:
        assert not interrupted()
        press_ctrl_c()
        assert interrupted()
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_without_an_interrupt_nothing_is_recorded(default_handler):
    with deferred_interrupt() as interrupted:
        pass
    assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_a_second_interrupt_is_raised(default_handler):
    def twice():
        with deferred_interrupt() as interrupted:
            press_ctrl_c()
            assert interrupted()
            press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_the_handler_is_restored_after_an_error(default_handler):
    with pytest.raises(ZeroDivisionError), deferred_interrupt():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is default_handler
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_an_interrupt_is_raised_if_deferring_is_disabled():
    with pytest.raises(KeyboardInterrupt), deferred_interrupt(False):
        press_ctrl_c()


def test_a_handler_set_by_other_code_is_kept():
    received = []

    def handler(number, frame):
        received.append(number)

    signal.signal(signal.SIGINT, handler)
    with deferred_interrupt() as interrupted:
        press_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is handler
        assert not interrupted()
    assert received == [signal.SIGINT]


def test_other_threads_do_not_change_handlers(default_handler):
    found = []

    def work():
        with deferred_interrupt() as interrupted:
            found.append((interrupted(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, default_handler)]


@pytest.fixture
def send_sigterm():
    """Return a function that sends SIGTERM; Ctrl-C is ignored, as in background jobs of a shell."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does
    yield lambda: os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def test_sigterm_raises_keyboard_interrupt_if_ctrl_c_is_ignored(send_sigterm):
    press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        send_sigterm()


def test_sigterm_is_deferred_too(send_sigterm):
    with deferred_interrupt() as interrupted:
        press_ctrl_c()
        assert not interrupted()
        send_sigterm()
        assert interrupted()
    with pytest.raises(KeyboardInterrupt):
        send_sigterm()
