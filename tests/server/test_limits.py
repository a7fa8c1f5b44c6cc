"""The token bucket and the memory of clients' keys, with a clock of their own."""

from __future__ import annotations

import pytest

from dpnb.server.limits import Gate, Keys, Limits
from dpnb.server.refusals import RefusedError

pytestmark = pytest.mark.fast


class TestGate:
    @pytest.fixture
    def clock(self):
        return [0.0]

    @pytest.fixture
    def gate(self, clock):
        return Gate(Limits(rate=2, burst=4, concurrent=3), lambda: clock[0])

    def served(self, gate, count, name="alice"):
        passed = 0
        for _ in range(count):
            try:
                gate.enter(name)
            except RefusedError:
                continue
            gate.leave(name)
            passed += 1
        return passed

    def test_a_burst_passes_and_then_the_rate(self, gate, clock):
        assert self.served(gate, 10) == 4
        clock[0] += 1.5
        assert self.served(gate, 10) == 3
        clock[0] += 1000
        assert self.served(gate, 10) == 4

    def test_it_says_how_long_to_wait(self, clock):
        gate = Gate(Limits(rate=0.1, burst=1), lambda: clock[0])
        gate.enter("alice")
        with pytest.raises(RefusedError) as caught:
            gate.enter("alice")
        assert (caught.value.status, caught.value.retry) == (429, 10)
        clock[0] += 10
        gate.enter("alice")

    def test_analysts_do_not_hinder_one_another(self, gate):
        assert self.served(gate, 10) == 4
        assert self.served(gate, 10, "bob") == 4

    def test_so_many_run_at_once(self, gate):
        for _ in range(3):
            gate.enter("alice")
        with pytest.raises(RefusedError, match="3 of your requests"):
            gate.enter("alice")
        gate.leave("alice")
        gate.enter("alice")


class TestKeys:
    def test_a_key_is_for_one_request_of_one_analyst(self):
        keys = Keys(10)
        keys.check("alice", "k", b"1")
        keys.check("alice", "k", b"1")
        keys.check("bob", "k", b"2")
        with pytest.raises(RefusedError) as caught:
            keys.check("alice", "k", b"2")
        assert caught.value.status == 409

    def test_so_many_are_remembered(self):
        keys = Keys(3)
        for i in range(5):
            keys.check("alice", str(i), b"1")
        keys.check("alice", "0", b"2")
        with pytest.raises(RefusedError):
            keys.check("alice", "4", b"2")
