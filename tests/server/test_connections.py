"""Connections: deadlines for every request, and places that strangers cannot take."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from dpnb.server.connections import Connections
from dpnb.server.limits import Limits

HEALTH = b"GET /v2/health HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(eq=False)
class Fake:
    """A connection as it is looked at."""

    address: str = "10.0.0.1"
    phase: str = "head"
    request: object = None
    signed_in: bool = False
    ended: bool = field(default=False, init=False)

    def end(self):
        self.ended = True


class TestDeadlines:
    LIMITS = Limits(head=10, upload=20, reply=120, idle=30)

    @pytest.fixture
    def now(self):
        return [0.0]

    @pytest.fixture
    def connections(self, now):
        return Connections(self.LIMITS, lambda: now[0])

    def lasted(self, connections, now, change=lambda one, second: None, **state):
        """Seconds until a connection is ended."""
        one = Fake(**state)
        connections.enter(one)
        for second in range(1000):
            now[0] = float(second)
            change(one, second)
            connections.look()
            if one.ended:
                return second
        return None

    @pytest.mark.parametrize(
        ("phase", "seconds"), [("head", 11), ("body", 21), ("reply", 121), ("idle", 31)]
    )
    @pytest.mark.parametrize("signed_in", [False, True])
    def test_each_wait_for_a_client_ends(self, connections, now, phase, seconds, signed_in):
        assert self.lasted(connections, now, phase=phase, signed_in=signed_in) == seconds

    def test_work_has_limits_of_its_own(self, connections, now):
        assert self.lasted(connections, now, phase="work") is None

    def test_a_later_request_has_the_same_deadline(self, connections, now):
        def change(one, second):
            if second == 5:
                one.request, one.phase = object(), "idle"
            elif second == 20:
                one.phase = "head"

        assert self.lasted(connections, now, change) == 31

    def test_a_request_begins_anew(self, connections, now):
        def change(one, second):
            if second < 100 and second % 25 == 0:
                one.request = object()

        assert self.lasted(connections, now, change, phase="idle") == 75 + 31


class TestPlaces:
    @pytest.fixture
    def now(self):
        return [0.0]

    @pytest.fixture
    def opened(self, now):
        return lambda **limits: Connections(Limits(**limits), lambda: now[0])

    def crowd(self, connections, count, **state):
        made = [Fake(**{"address": f"10.0.0.{i}", **state}) for i in range(count)]
        for one in made:
            connections.enter(one)
        return made

    def left(self, made):
        return [one for one in made if not one.ended]

    def test_the_oldest_strangers_go_where_they_are_too_many(self, opened, now):
        connections = opened(connections=20, strangers=4)
        made = self.crowd(connections, 10)
        connections.look()
        # they may be analysts whose heads are on their way
        assert self.left(made) == made
        now[0] = 1.0
        connections.look()
        assert self.left(made) == made[-4:]

    def test_strangers_of_one_address_have_a_bound_of_their_own(self, opened, now):
        connections = opened(strangers=4, per_address=2)
        (other,) = self.crowd(connections, 1)
        made = self.crowd(connections, 10, address="10.9.9.9")
        now[0] = 1.0
        connections.look()
        assert self.left(made) == made[-2:]
        assert not other.ended

    def test_however_many_come_at_once_analysts_are_left_in_peace(self, opened, now):
        connections = opened(connections=9, strangers=4, per_address=4)
        analysts = self.crowd(connections, 4, signed_in=True, phase="idle", address="10.9.9.9")
        busy = self.crowd(connections, 1, phase="work")
        made = self.crowd(connections, 50, address="10.9.9.9") + self.crowd(connections, 50)
        assert self.left(made) == made[-4:]
        now[0] = 1.0
        connections.look()
        assert self.left(analysts + busy) == analysts + busy

    def test_where_analysts_have_all_places_the_one_that_waits_longest_gives_way(self, opened, now):
        connections = opened(connections=4, strangers=2)
        made = []
        for phase in ("work", "reply", "idle", "idle"):
            made += self.crowd(connections, 1, signed_in=True, phase=phase)
            now[0] += 1
        newcomers = self.crowd(connections, 1, signed_in=True, phase="work")
        assert self.left(made) == [made[0], made[1], made[3]]
        newcomers += self.crowd(connections, 2, signed_in=True, phase="work")
        assert self.left(made + newcomers) == [made[0], *newcomers]

    def test_one_that_was_closed_takes_no_place(self, opened):
        connections = opened(connections=2, strangers=2)
        made = self.crowd(connections, 2)
        connections.leave(made[0])
        self.crowd(connections, 1)
        assert self.left(made) == made


@contextlib.contextmanager
def connected(house, sent=b"", buffer=None):
    """A connection that has sent something, perhaps of a client that takes little at once."""
    place = urlsplit(house.url)
    with socket.socket() as connection:
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(10)
        connection.connect((place.hostname, place.port))
        connection.sendall(sent)
        yield connection


def read_reply(connection):
    """Return a reply with a body of JSON."""
    found = b""
    while not found.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, found
        found += part
    return found


def is_ended(connection, trickle=b"", seconds=10.0, read=100):
    """Whether the service ends a connection that sends a byte now and then."""
    end = time.monotonic() + seconds
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            connection.sendall(trickle)
            if read and connection.recv(read) == b"":
                return True
            time.sleep(0 if read else 0.05)
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


class TestSockets:
    def test_a_head_that_does_not_come_ends_its_connection(self, build):
        """The first one of a connection and every other one."""
        house = build(limits=Limits(head=0.8))
        with connected(house, HEALTH[:18]) as first, connected(house, HEALTH) as later:
            assert b"200 OK" in read_reply(later)
            later.sendall(HEALTH[:-4])
            assert is_ended(later, b"x")
            assert is_ended(first, b"x")
        assert house.get("/v2/budget").status_code == 200

    def test_a_body_that_nobody_reads_ends_its_connection(self, build):
        house = build(limits=Limits(upload=0.3))
        head = b"POST /v2/query HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
        with connected(house, head) as slow:
            assert b"401 Unauthorized" in read_reply(slow)
            assert is_ended(slow, b"x")

    def test_an_idle_connection_is_ended(self, build):
        house = build(limits=Limits(idle=0.3))
        with connected(house, HEALTH) as idle:
            read_reply(idle)
            assert is_ended(idle)

    def test_a_reply_that_is_not_taken_ends_its_connection(self, build):
        house = build(limits=Limits(reply=0.5))
        many = HEALTH.replace(b"health", b"openapi.json") * 200
        with connected(house, buffer=4096) as deaf:
            deaf.settimeout(0.5)
            with contextlib.suppress(OSError):
                deaf.sendall(many)
            assert is_ended(deaf, b"x", read=0)

    def test_strangers_cannot_keep_analysts_out(self, build):
        """All from one address, as behind a proxy."""
        house = build(limits=Limits(connections=12, strangers=8, per_address=6))
        token = house.headers()["Authorization"].encode()
        asked = HEALTH.replace(b"health", b"budget")[:-2] + b"Authorization: " + token + b"\r\n\r\n"
        with contextlib.ExitStack() as stack:
            analyst = stack.enter_context(connected(house, asked))
            assert b"200 OK" in read_reply(analyst)
            crowd = [stack.enter_context(connected(house, HEALTH[:-2])) for _ in range(40)]
            for _ in range(3):
                assert house.get("/v2/budget").status_code == 200
            analyst.sendall(asked)
            assert b"200 OK" in read_reply(analyst)
            for _ in range(20):
                crowd = [one for one in crowd if not is_ended(one, seconds=0.1)]
                if len(crowd) <= 6:
                    break
            assert len(crowd) <= 6
