import time

import pytest

from adaptkry.common import timing


def test_seconds_are_those_of_the_call():
    assert 0.01 <= timing.seconds(lambda: time.sleep(0.01)) < 1


@pytest.mark.parametrize(("warm", "calls"), [(True, 4), (False, 3)])
def test_jobs_alternate_and_the_median_of_the_measured_rounds_is_returned(monkeypatch, warm, calls):
    order, steps = [], []
    spent = {"a": iter([100.0, 1.0, 9.0, 2.0][-calls:]), "b": iter([100.0, 5.0, 3.0, 4.0][-calls:])}
    monkeypatch.setattr(timing, "seconds", lambda job, _device: next(spent[job()]))
    jobs = {name: lambda name=name: order.append(name) or name for name in spent}
    found = timing.interleaved(jobs, rounds=3, on_job=lambda: steps.append(1), warm=warm)
    assert found == {"a": 2.0, "b": 4.0}
    assert order == ["a", "b"] * calls
    assert len(steps) == 2 * calls
