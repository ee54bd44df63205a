"""Ctrl-C while the main thread is in a call of libkeel: the call is cancelled.

Python notes a signal at once, but raises KeyboardInterrupt between its own instructions only. So
during a call signals are also written to a pipe (signal.set_wakeup_fd), which a thread reads; it
cancels the call, and Python raises as soon as that has returned. Another handler than Python's own
may want the call to go on: then it does.
"""
from __future__ import annotations

import _signal
import os
import select
import threading
from _thread import get_ident
from ctypes import byref, c_void_p
from typing import Any, Callable

from . import _calls
from . import _native as native
from ._native import lib

_INTERRUPT = int(_signal.SIGINT)


class _Watch:
    """The pipe and its reader. One call at a time is watched: the main thread's."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)
        self._ready = select.poll()
        self._ready.register(self._reads, select.POLLIN)
        self._lock = threading.Lock()
        self._cancel: c_void_p | None = None
        self._former = -1  # the file that signals were written to before
        threading.Thread(target=self._work, name="keel Ctrl-C", daemon=True).start()

    def _work(self) -> None:
        ready = select.poll()
        ready.register(self._reads, select.POLLIN)
        while True:
            ready.poll()
            with self._lock:
                if _INTERRUPT in self._read() and self._cancel:
                    lib.keel_cancel_request(self._cancel, b"Ctrl-C")
                    self._cancel = None

    def _read(self) -> bytes:
        """What has come, which others get, too."""
        try:
            found = os.read(self._reads, 4096)
        except BlockingIOError:
            return b""
        if self._former >= 0:
            try:
                os.write(self._former, found)
            except OSError:
                pass
        return found

    def begin(self, cancel: c_void_p) -> None:
        with self._lock:
            if self._ready.poll(0):
                self._read()  # what came after the last call
            former = _signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
            if former != self._writes:
                self._former = former
            self._cancel = cancel

    def end(self) -> bool:
        """Whether the call was cancelled."""
        with self._lock:
            cancelled, self._cancel = self._cancel is None, None
            _signal.set_wakeup_fd(self._former, warn_on_full_buffer=False)
        return cancelled


class _FastWatch:
    """The same in C, whose handler of the signal stays in place."""

    def begin(self, cancel: c_void_p) -> None:
        _calls.fast.begin(cancel.value)

    def end(self) -> bool:
        return bool(_calls.fast.end())


_watch: _Watch | None = None
_fast_watch = _FastWatch()
_main = threading.main_thread().ident


def _forked() -> None:
    global _watch, _main
    _watch, _main = None, threading.main_thread().ident
    if _calls.fast:
        _calls.fast.forked(_main)


_forked()
os.register_at_fork(after_in_child=_forked)


def reaches() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this thread."""
    return (get_ident() == _main
            and _signal.getsignal(_INTERRUPT) is _signal.default_int_handler)


def _watched() -> _Watch | _FastWatch | None:
    """None: this thread gets no signals, or they are another handler's."""
    global _watch
    if _calls.fast:
        return _fast_watch if _calls.fast.watched() else None
    if not reaches():
        return None
    if _watch is None:
        _watch = _Watch()
    return _watch


class Token:
    """A context's token for calls of the main thread, made anew after Ctrl-C."""

    def __init__(self) -> None:
        self._cancel: c_void_p | None = None

    def release(self) -> None:
        if self._cancel:
            lib.keel_cancel_release(self._cancel)
            self._cancel = None

    def call(self, context: int, params: Any, function: Callable[[], int]) -> int:
        """Calls the function, whose parameters have a field `cancel`."""
        watch = _watched()
        if watch is None:
            return function()
        if self._cancel is None:
            cancel = native.handle()
            if lib.keel_cancel_create(context, byref(cancel)) != native.OK:
                return function()
            self._cancel = cancel
        params.cancel = self._cancel
        cancelled = True
        try:
            watch.begin(self._cancel)
            return function()
        finally:
            cancelled = watch.end()
            if cancelled:
                self.release()
