"""What is worked out once is kept while it holds, and within a bound."""

from __future__ import annotations

import sys
import threading

import pytest

from dpnb.releases import memo
from dpnb.releases.memo import Memo

pytestmark = pytest.mark.fast


class Work:
    """Counts how often it is done."""

    def __init__(self, result: object = "done") -> None:
        self.result, self.times = result, 0

    def __call__(self) -> object:
        self.times += 1
        return self.result


def test_it_is_done_once_for_a_key_and_a_stamp():
    kept, work = Memo(), Work()
    for key, stamp, times in (("a", 1, 1), ("a", 1, 1), ("a", 2, 2), ("b", 2, 3), ("a", 1, 4)):
        assert kept.at(key, stamp, work) == "done"
        assert work.times == times


def test_nothing_is_kept_without_a_key():
    kept, work = Memo(), Work()
    kept.at(None, 1, work)
    kept.at(None, 1, work)
    assert work.times == 2
    assert len(kept) == 0


def test_none_is_a_result():
    kept, work = Memo(), Work(None)
    assert kept.at("a", 1, work) is kept.at("a", 1, work) is None
    assert work.times == 1


def test_an_error_is_not_kept():
    kept = Memo()
    with pytest.raises(ZeroDivisionError):
        kept.at("a", 1, lambda: 1 // 0)
    assert len(kept) == 0


def test_the_oldest_go_when_there_is_no_room(monkeypatch):
    monkeypatch.setattr(memo, "MOST", 50_000)
    kept = Memo()
    for number in range(150):
        kept.at(number, None, Work(number))
    assert len(kept) == 100
    work = Work()
    kept.at(149, None, work)
    assert work.times == 0
    kept.at(0, None, work)
    assert work.times == 1


def test_values_count(monkeypatch):
    monkeypatch.setattr(memo, "MOST", 50_000)
    kept = Memo()
    for number in range(150):
        kept.at(number, None, Work(number), lambda _: 500)
    assert len(kept) == 50
    for number in range(150):
        kept.at(number, "other", Work(number), lambda _: 501)
    # each is too large, and takes the place of what was there
    assert len(kept) == 0
    assert kept._size == 0


def test_threads_may_share_it(monkeypatch):
    monkeypatch.setattr(memo, "MOST", 10_000)
    kept, failed, before = Memo(), [], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(thread: int) -> None:
        try:
            for number in range(2_000):
                assert kept.at((thread, number % 30), number, lambda n=number: n) == number
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    sys.setswitchinterval(before)
    assert failed == []
    assert kept._size == 500 * len(kept) <= memo.MOST
