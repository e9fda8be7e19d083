"""Executors that compute blocks: inline, in worker processes on this machine, or on a Dask cluster."""

import asyncio
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import torch

from adaptkry.common import checks
from adaptkry.common.lookup import pick

CONNECT_TIMEOUT = 10  # seconds to wait for a scheduler
MAX_WORKERS = 10_000
MAX_WORKER_DEATHS = 10  # number of workers that may die during one block before Dask gives up


class InlineExecutor(Executor):
    """Runs each call immediately, in this thread."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        """Call the function and return its result in a finished future."""
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # raised by result()
            future.set_exception(error)
        return future


@contextmanager
def inline(_workers: int | None, _scheduler: str | None) -> Iterator[Executor]:
    """Compute blocks in this process."""
    yield InlineExecutor()


@contextmanager
def processes(workers: int | None, _scheduler: str | None) -> Iterator[Executor]:
    """Compute blocks in a pool of processes on this machine."""
    count = workers or cores()
    threads = max(1, cores() // count)
    context = multiprocessing.get_context("spawn")  # a fork would copy the state of torch's threads
    with ProcessPoolExecutor(count, context, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def dask(workers: int | None, scheduler: str | None) -> Iterator[Executor]:
    """Compute blocks on the Dask cluster at an address, or on a new one on this machine."""
    try:
        import distributed
    except ImportError:
        raise ImportError("--executor dask needs Dask. Install it: pip install 'adaptkry[scale]'.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # the block of a lost worker is computed again
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
    """Tolerate workers that die, and divide the cores among the workers."""
    import dask.config

    threads = str(max(1, cores() // workers))
    environment = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    options = {
        "distributed.scheduler.allowed-failures": MAX_WORKER_DEATHS,
        "distributed.nanny.pre-spawn-environ": environment,
    }
    with dask.config.set(options):
        yield


@contextmanager
def _client(distributed, address: str) -> Iterator:
    try:
        with ThreadPoolExecutor(1) as thread:  # in a notebook this thread already runs an event loop
            workers = thread.submit(asyncio.run, _workers(distributed, address)).result()
    except (OSError, ValueError) as error:
        raise TimeoutError(
            f"--scheduler must be the address of a Dask scheduler; no Dask scheduler answered at {address} within "
            f"{CONNECT_TIMEOUT} s ({type(error).__name__}). Start one with `dask scheduler` and pass the address that "
            f"it prints, such as tcp://10.0.0.1:8786."
        ) from None
    if not workers:
        raise ValueError(
            f"a Dask cluster needs workers; the scheduler at {address} has no workers. Start one: "
            f"dask worker {address}."
        )
    with distributed.Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False) as client:
        yield client


async def _workers(distributed, address: str) -> dict:
    """The workers of a scheduler. Dask's Client would wait forever for a server that accepts but never answers."""
    security = distributed.Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_TIMEOUT), distributed.rpc(address, connection_args=security) as scheduler:
        return (await scheduler.identity())["workers"]


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


EXECUTOR_FUNCTIONS: dict[str, Callable[[int | None, str | None], AbstractContextManager[Executor]]] = {
    "inline": inline,
    "processes": processes,
    "dask": dask,
}


def check_executor(name: str, workers: int | None = None, scheduler: str | None = None) -> None:
    """Refuse an unknown executor, and options that belong to another one."""
    pick(EXECUTOR_FUNCTIONS, name, "executor")
    if scheduler is not None and name != "dask":
        raise ValueError(f"--scheduler is for --executor dask; got {name}. Use --executor dask.")
    if workers is not None:
        checks.positive_count(workers, "workers", MAX_WORKERS)
    if workers is not None and name == "inline":
        raise ValueError("--workers is for --executor processes or dask; got inline. Use --executor processes.")
    if workers is not None and scheduler is not None:
        raise ValueError(
            "--workers is for a new cluster; the cluster at --scheduler already has workers. Leave --workers out."
        )


def open_executor(
    name: str, workers: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Executor]:
    """The executor of that name, as a context manager."""
    check_executor(name, workers, scheduler)
    return EXECUTOR_FUNCTIONS[name](workers, scheduler)
