"""A process that reads parts of files into memory that it shares with this one, while this one trains.

Threads of one process would wait for each other: Python lets only one of them run at a time, and switching between
them takes longer than many of the calls that prepare and launch work on a GPU.

The process runs this file as a script, which imports only the standard library and so starts fast.
"""

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

THREADS = 4  # that read at the same time
Part = tuple[str, int, int, int]  # path, first byte in the file, first byte in memory, number of bytes


class ReadProcess:
    """Reads parts of files into shared memory; a request is answered later, so that both processes can work.

    Args:
        size: bytes of the shared memory.
    """

    def __init__(self, size: int):
        descriptor = os.memfd_create("adaptkry")  # freed by the system when both processes have ended
        try:
            os.ftruncate(descriptor, size)
            self.memory = mmap.mmap(descriptor, size)
            command = [sys.executable, "-I", __file__, str(descriptor)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[descriptor], text=True,
                start_new_session=True,  # Ctrl-C is for this process; the other one ends when its input ends
            )  # fmt: skip
        finally:
            os.close(descriptor)

    def request(self, parts: Sequence[Part]) -> None:
        """Ask for these parts."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(parts) + "\n")
        self.process.stdin.flush()

    def wait(self) -> None:
        """Wait until the parts of the earliest request are in memory; raise an error if they could not be read."""
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise OSError("the process that reads the basis folder has ended; it must run until the training ends.")
        reason = json.loads(answer)
        if reason:
            raise ValueError(reason)

    def close(self) -> None:
        """End the process; it may be called twice."""
        self.process.terminate()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def read_part(memory: memoryview, part: Part) -> None:
    """Read one part into memory."""
    path, position, first, size = part
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if fill(descriptor, memory[first : first + size], position):
            raise ValueError(f"{path} must hold {position + size} bytes; the file is shorter. Create it again.")
    finally:
        os.close(descriptor)


def fill(descriptor: int, target: memoryview, position: int) -> int:
    """Read a file from a position on until the target is full or the file ends; return how many bytes are missing."""
    while len(target):
        count = os.preadv(descriptor, [target], position)
        if not count:
            break
        target, position = target[count:], position + count
    return len(target)


def serve(descriptor: int) -> None:
    """Answer requests, one per line, until the input ends: with the reason if something could not be read, or ''."""
    memory = memoryview(mmap.mmap(descriptor, 0))
    with ThreadPoolExecutor(THREADS) as pool, os.fdopen(1, "w") as answers:
        for line in sys.stdin:
            try:
                for _ in pool.map(lambda part: read_part(memory, part), json.loads(line)):
                    pass
                reason = ""
            except (OSError, ValueError) as error:
                reason = str(error)
            answers.write(json.dumps(reason) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
