import errno
import fcntl
import io
import os

import numpy as np
import pytest

from adaptkry.outofcore import npy_files
from adaptkry.outofcore.npy_files import WRITE_BYTES, DirectWriter


@pytest.mark.parametrize("is_refused", [False, True], ids=["direct", "cached"])
def test_chunks_of_odd_sizes_give_the_array_and_its_checksum(tmp_path, monkeypatch, is_refused):
    real = os.open

    def refusing(path, flags, mode=0o777, **options):
        if flags & getattr(os, "O_DIRECT", 0):  # as on file systems without O_DIRECT
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode, **options)

    if is_refused:
        monkeypatch.setattr(os, "open", refusing)
    expected = np.random.default_rng(0).integers(0, 256, 2 * WRITE_BYTES + 777, dtype=np.uint8)
    path = tmp_path / "whole.npy"
    with npy_files.npy_writer(path, expected.shape, expected.dtype) as writer:
        for chunk in np.split(expected, [0, 1, 4096, WRITE_BYTES + 5, WRITE_BYTES + 6]):
            writer.write(chunk)
    np.testing.assert_array_equal(np.load(path), expected)
    assert writer.checksum == npy_files.file_checksum(path) == npy_files.array_checksum(expected)


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no O_DIRECT")
def test_a_disk_that_refuses_direct_writes_is_written_through_the_cache(tmp_path):
    class Refusing(io.FileIO):
        def write(self, content):
            if fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return super().write(content)

    expected = os.urandom(WRITE_BYTES + 5)
    with Refusing(tmp_path / "file", "wb", opener=npy_files.open_direct) as file:
        writer = DirectWriter(file)
        writer.write(expected)
        writer.finish()
    assert (tmp_path / "file").read_bytes() == expected
