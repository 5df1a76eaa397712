"""The processes that train one model together: who they are, by torchrun's variables, and how they exchange data."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor

from diffor.errors import UserError

T = TypeVar("T")

TIMEOUT = timedelta(hours=2)
"""How long processes wait for the slowest one; torchrun notices much sooner when one has died."""
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class World:
    """The processes of a run and this one's place among them; alone, nothing is sent and nothing is waited for.

    Connections are made when something is first sent: gloo for tensors of CPUs, nccl for those of GPUs.

    >>> alone = World()
    >>> alone.same("a"), alone.gather("a"), alone.is_first
    ('a', ['a'], True)
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The place among the processes of the same machine, which is the number of its GPU."""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] | None = None) -> World:
        """The world that torchrun describes in environment variables; a world of one where there are none.

        >>> World.from_environment({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"})
        World(rank=1, size=4, local_rank=1)
        """
        found = os.environ if variables is None else variables
        size = _number(found, "WORLD_SIZE", 1)
        if size <= 1:
            return cls()
        rank = _number(found, "RANK", -1)
        if not 0 <= rank < size or "MASTER_ADDR" not in found:
            raise UserError(
                f"several processes must be started by torchrun, which sets RANK, WORLD_SIZE and MASTER_ADDR, but got "
                f"WORLD_SIZE={size} and RANK={found.get('RANK')}; start them with torchrun, or unset WORLD_SIZE"
            )
        return cls(rank, size, _number(found, "LOCAL_RANK", 0))

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.rank == 0

    def add(self, vector: Tensor) -> None:
        """Replace a tensor by the sum of those of all processes. **Shape:** any, the same everywhere."""
        if self.size > 1:
            self._connected().all_reduce(vector)

    def same(self, value: T) -> T:
        """The first process's value, everywhere."""
        if self.size == 1:
            return value
        values = [value]
        self._connected().broadcast_object_list(values, src=0)
        return values[0]

    def answer(self, ask: Callable[[], T]) -> T:
        """What a function answers in the first process, everywhere; the others do not call it.

        An error of the first process is raised everywhere, so that none waits for it.
        """
        if self.size == 1:
            return ask()
        answer: tuple[T | None, Exception | None] = (None, None)
        if self.is_first:
            try:
                answer = (ask(), None)
            except Exception as error:
                answer = (None, error)
        value, error_of_first = self.same(answer)
        if error_of_first is not None:
            raise error_of_first
        return value  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks, everywhere."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        self._connected().all_gather_object(values, value)
        return values

    def gather_rows(self, rows: Tensor) -> Tensor:
        """The rows of all processes, which may have differently many, in the order of ranks.

        **Shape:** ``(n of this process, ...)`` -> ``(n of all, ...)``.
        """
        if self.size == 1:
            return rows
        distributed = self._connected()
        counts = torch.zeros(self.size, dtype=torch.int64, device=rows.device)
        counts[self.rank] = len(rows)
        distributed.all_reduce(counts)
        longest = int(counts.max())
        if not longest:
            return rows
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        # One tensor for all: one for each process left gaps in memory, 200 MiB after 1,000 calls.
        parts = list(rows.new_empty(self.size, longest, *rows.shape[1:]))
        distributed.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts.tolist(), strict=True)])

    def close(self) -> None:
        """End the connections, if there are any."""
        if self.size > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _connected(self) -> Any:
        if not torch.distributed.is_initialized():
            has_gpu = torch.cuda.is_available()
            if has_gpu:
                torch.cuda.set_device(self.local_rank)
            torch.distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
                store=self._new_store(),
                rank=self.rank,
                world_size=self.size,
                timeout=TIMEOUT,
            )
        return torch.distributed

    def _new_store(self) -> Any:
        """A part of torchrun's store that only the processes of this very start know.

        torchrun (seen in torch 2.13) keeps its store when it restarts processes, and with it the addresses of those
        that died, which new ones would try to reach. So each process says under a name of its own that it is there,
        and the first answers with the name of the part to use: what was said before a restart gets no answer.
        """
        from torch.distributed.rendezvous import rendezvous

        distributed: Any = torch.distributed
        store, _, _ = next(rendezvous("env://", self.rank, self.size, timeout=TIMEOUT))
        own = uuid.uuid4().hex
        if not self.is_first:
            store.set(f"here/{self.rank}", own)
            group = store.get(f"group/{own}").decode()
            store.set(f"joined/{group}/{self.rank}", own)
            return distributed.PrefixStore(group, store)
        missing, deadline = set(range(1, self.size)), time.monotonic() + TIMEOUT.total_seconds()
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"all {self.size} processes must start, but {sorted(missing)} did not")
            for rank in missing:
                if store.check([f"here/{rank}"]):
                    store.set(f"group/{store.get(f'here/{rank}').decode()}", own)
            missing = {rank for rank in missing if not store.check([f"joined/{own}/{rank}"])}
            time.sleep(POLL_SECONDS)
        return distributed.PrefixStore(own, store)


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    given = variables.get(name, str(default))
    try:
        return int(given)
    except ValueError:
        raise UserError(
            f"{name} must be a whole number, as torchrun sets it, but got {name}={given!r}; unset it"
        ) from None
