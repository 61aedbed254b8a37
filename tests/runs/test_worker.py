"""What a worker says of the notebook that it executes."""

import errno
import os

from ppkit.runs import worker


def test_a_worker_that_cannot_write_says_so(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "01_a.ipynb"))
    assert worker._why(full) == {
        "error": "could not write the run's files: No space left on device"
    }
