import os
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import torch
from adaptkry.common import memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        [torch.ones(2**20) for _ in range(16)]  # 64 MiB, of which 4 MiB at a time
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) // 1024

with memory.reused_memory():
    with memory.reused_memory():  # of a training inside another one
        faults()
    assert faults() < 100, faults()
    big = [torch.ones(2**20) for _ in range(64)]  # 256 MiB
    before = resident()
    del big
    assert resident() > before - 32
assert resident() < before - 200, (before, resident())
assert memory._reuse.blocks == 0
assert memory.keep_freed_memory()
big = [torch.ones(2**20) for _ in range(64)]
before = resident()
with memory.reused_memory():
    del big
assert resident() > before - 32  # a program that keeps it goes on doing so
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the settings of malloc are those of glibc")
def test_memory_is_used_again_inside_a_block_and_returned_afterwards():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
