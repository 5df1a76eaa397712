"""What a figure depends on beside the data: versions, commit, machine."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import diffor

PACKAGES = ("numpy", "pandas", "scikit-learn", "torch")


@lru_cache
def package_version(name: str) -> str | None:
    """The version of an installed package, or None.

    >>> package_version("no-such-package") is None
    True
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions(further: Iterable[str | None] = ()) -> dict[str, str]:
    """Versions of Python, of this package and of those it computes with; what is not installed is left out."""
    found = {name: package_version(name) for name in (*PACKAGES, *(name for name in further if name))}
    known = {name: version for name, version in found.items() if version is not None}
    return {"python": platform.python_version(), "diffor": diffor.__version__, **known}


def commit(folder: Path | None = None) -> str | None:
    """The commit of the code that runs, with ``+changes`` where its files differ; None outside a repository."""
    folder = Path(diffor.__file__).parent if folder is None else folder
    # The folder may be installed inside somebody's repository without belonging to it.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    name = _git(folder, "rev-parse", "--short=12", "HEAD")
    if name is None:
        return None
    return f"{name}+changes" if _git(folder, "status", "--porcelain", "--", ".") else name


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@lru_cache
def machine() -> str:
    """The processor, how many of its cores there are, and the system."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def origin(program: str, words: Sequence[str], further: Iterable[str | None] = ()) -> dict[str, Any]:
    """Where figures come from: command, time, commit, machine, its load, and versions (of ``further`` packages too).

    >>> origin("python benchmarks/latency.py", ["--quick"])["command"]
    'python benchmarks/latency.py --quick'
    """
    return {
        "command": command_line(words, program),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "machine": machine(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": versions(further),
    }


def command_line(words: Sequence[str], program: str = "diffor") -> str:
    """A command as it could be typed elsewhere: folders of this machine are left out.

    >>> command_line(["bench", "/home/me/quick.toml", "--root", "/data", "--jobs", "2"])
    'diffor bench quick.toml --root ROOT --jobs 2'
    """
    kept = shlex.split(program)
    for place, word in enumerate(words):
        if place and words[place - 1] == "--root":
            kept.append("ROOT")
        elif word.startswith("--root="):
            kept.append("--root=ROOT")
        else:
            kept.append(Path(word).name if Path(word).is_absolute() else word)
    return shlex.join(kept)


def peak_mib(pid: int | None = None) -> float:
    """The most memory that a process, or this one, ever held, in MiB; 0 where it is gone.

    >>> peak_mib() > 1
    True
    """
    status = Path(f"/proc/{pid or 'self'}/status")
    try:
        # The kernel's own record: getrusage would count what the starting process held.
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    except (FileNotFoundError, ProcessLookupError):
        found = None
    if found is not None:
        return int(found[1]) / 1024
    if pid is not None or status.exists():
        return 0.0
    import resource  # here, since Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
