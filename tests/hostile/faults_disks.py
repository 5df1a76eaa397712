"""Disks that are full or read-only: by limits of a process, and by real small file systems where one may mount."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from kills_processes import run_forked


def run_limited(words: Sequence[str], folder: Path, most_bytes: int) -> int | None:
    """Run ``diffor`` where no file can grow beyond some bytes; its exit code."""

    def work() -> int:
        from diffor.cli.main import main

        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        return main(list(words))

    return run_forked(work, folder)


@contextmanager
def small_disk(place: Path, kib: int) -> Iterator[Path]:
    """A file system in memory of this size, as long as the block runs."""
    place.mkdir()
    mount("-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place))
    try:
        yield place
    finally:
        for _ in range(100):  # the system closes files of the dead a moment later
            if subprocess.run(["umount", str(place)], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
        else:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@lru_cache
def can_mount(folder: Path) -> bool:
    """Whether this user may mount file systems."""
    if os.geteuid() != 0:
        return False
    try:
        with small_disk(folder / "trial", 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        (folder / "trial").rmdir()
        return False
