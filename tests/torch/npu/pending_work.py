"""Work that a test keeps under way on a stream, as a backend does with a collective."""

import threading
import time

import symccl._npu


class Gate:
    """Pending work that ends when the test says so."""

    def __init__(self, stream):
        self._open = threading.Event()
        self._ended = None
        self.waits = 0
        symccl._npu.add_pending(stream, self._poll)

    def open(self):
        self._ended = time.monotonic()
        self._open.set()

    def open_after(self, seconds):
        """Ends it from another thread; returns that thread."""
        thread = threading.Timer(seconds, self.open)
        thread.start()
        return thread

    def _poll(self, wait):
        if wait:
            self.waits += 1
            assert self._open.wait(timeout=60)
        return time.monotonic() - self._ended if self._open.is_set() else None
