"""How many threads the libraries of linear algebra use: a number of the whole process, which fits in threads share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


class SharedLimit:
    """A limit that holds as long as anyone needs it: sums come out otherwise, in their last bit, by other threads.

    Were each fit to set and restore the number, the first to end would change it for those that go on. The first to
    begin decides.
    """

    def __init__(self) -> None:
        self.lock, self.n_users = threading.Lock(), 0
        self.limits: Any = None

    @contextmanager
    def hold(self, count: int) -> Iterator[None]:
        """Limit the threads for a while."""
        with self.lock:
            if not self.n_users:
                self.limits = threadpool_limits(count, "blas")
            self.n_users += 1
        try:
            yield
        finally:
            with self.lock:
                self.n_users -= 1
                if not self.n_users:
                    self.limits.restore_original_limits()


LINEAR_ALGEBRA = SharedLimit()
"""The one of this process."""
if hasattr(os, "register_at_fork"):  # no thread of the parent goes on in a forked process
    os.register_at_fork(after_in_child=LINEAR_ALGEBRA.__init__)  # type: ignore[misc]
