import os

# torch's thread pool spins while it waits; with other processes on the same cores that makes tests 10x slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
