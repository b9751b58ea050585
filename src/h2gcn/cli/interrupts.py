"""What ends a command before its time: Ctrl-C, and SIGTERM in the same way."""

from __future__ import annotations

import signal
import threading
import time
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "KEPT", "sigterm_as_ctrl_c"]

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells have it."""
KEPT = "interrupted, and the best so far is kept"
"""What a command returns that was interrupted, has said so and shown its result."""
_SECONDS_OF_ONE = 2.0
"""timeout(1) sends SIGTERM twice, to the process and to its group."""
_SECONDS_TO_TRY_AGAIN = 0.2


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[list[float]]:
    """Take SIGTERM for Ctrl-C; yield a list of the times when it came.

    Only in the main thread, where alone Python can, and only where nobody has said
    yet what SIGTERM does.
    """
    received: list[float] = []
    waiting = False

    def stop(_: int, frame: FrameType | None) -> None:
        nonlocal waiting
        now = time.monotonic()
        again = received and now - received[-1] < _SECONDS_OF_ONE
        if not waiting and again:
            return
        received.append(now)
        waiting = _importing(frame)
        if waiting:
            # torch drops an exception that comes while it is being imported.
            tries = (_SECONDS_TO_TRY_AGAIN, interrupt_main, [signal.SIGTERM])
            timer = threading.Timer(*tries)
            timer.daemon = True
            timer.start()
            return
        raise KeyboardInterrupt

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
