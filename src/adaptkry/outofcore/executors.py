"""Who makes the blocks: this process, some processes on this machine, or a Dask cluster. All are Executors."""

import asyncio
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import torch

from adaptkry.common.lookup import pick

PATIENCE = 10  # seconds for a scheduler to answer
LOST = 10  # workers that may die under one block before it is given up


class InlineExecutor(Executor):
    """Runs each call at once, in this thread."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        """Call it, and return what came."""
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # raised where the result is asked for
            future.set_exception(error)
        return future


@contextmanager
def here(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """This process."""
    if workers is not None or scheduler is not None:
        what = "workers" if scheduler is None else "scheduler"
        raise ValueError(f"--{what} is for another engine: add --engine {'processes' if workers else 'dask'}.")
    yield InlineExecutor()


@contextmanager
def processes(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """A pool of processes on this machine."""
    if scheduler is not None:
        raise ValueError("--scheduler is for another engine: use --engine dask.")
    count = workers or cores()
    threads = max(1, cores() // count)
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of something
    with ProcessPoolExecutor(count, context, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def dask(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """The Dask cluster at an address, or one of its own on this machine."""
    try:
        import distributed
    except ImportError:
        raise ImportError("--engine dask needs Dask. Install it: pip install 'adaptkry[scale]'.") from None
    if scheduler is not None and workers is not None:
        raise ValueError("--workers is for a cluster of one's own; the one at --scheduler has as many as it has.")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost worker is no news: its block is made again
    with _cluster(distributed, workers) if scheduler is None else _client(distributed, scheduler) as client:
        yield client.get_executor(pure=False)


@contextmanager
def _cluster(distributed, workers: int | None) -> Iterator:
    count = workers or cores()
    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": None}
    with (
        _configured(count),
        distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def _configured(workers: int) -> Iterator[None]:
    """As many workers may die as will, and each has its share of the cores."""
    import dask.config

    threads = str(max(1, cores() // workers))
    environment = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    told = {"distributed.scheduler.allowed-failures": LOST, "distributed.nanny.pre-spawn-environ": environment}
    with dask.config.set(told):
        yield


@contextmanager
def _client(distributed, address: str) -> Iterator:
    try:
        with ThreadPoolExecutor(1) as thread:  # not here: in a notebook an event loop runs here already
            workers = thread.submit(asyncio.run, _ask(distributed, address)).result()
    except (OSError, ValueError) as error:
        raise TimeoutError(
            f"no Dask scheduler answered at {address} within {PATIENCE} s ({type(error).__name__}). Start one with "
            f"`dask scheduler`, and pass the address that it prints, such as tcp://10.0.0.1:8786."
        ) from None
    if not workers:
        raise ValueError(f"the Dask scheduler at {address} has no workers. Start some: dask worker {address}.")
    with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
        yield client


async def _ask(distributed, address: str) -> dict:
    """The workers of a scheduler. Dask's Client waits for ever where somebody accepts the call and says nothing."""
    security = distributed.Security().get_connection_args("client")
    async with asyncio.timeout(PATIENCE), distributed.rpc(address, connection_args=security) as scheduler:
        return (await scheduler.identity())["workers"]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


ENGINES: dict[str, Callable[[int | None, str | None], AbstractContextManager[Executor]]] = {
    "here": here,
    "processes": processes,
    "dask": dask,
}


def executor(engine: str, workers: int | None = None, scheduler: str | None = None) -> AbstractContextManager[Executor]:
    """The engine of that name, as a context."""
    return pick(ENGINES, engine, "engine")(workers, scheduler)
