"""Tokens: issued once, kept as hashes, refused in one text."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpnb.errors import RequestError
from dpnb.server import tokens
from dpnb.server.auth import Analyst, bearer
from dpnb.server.refusals import RefusedError
from dpnb.server.tokens import TokenFile

pytestmark = pytest.mark.fast


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


def headers(token):
    return [(b"authorization", f"Bearer {token}".encode())]


def identify(file, token):
    # in a thread of its own: a browser's test may have left an event loop running in this one
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, file.identify(headers(token))).result()


def refusal(file, token):
    with pytest.raises(RefusedError) as caught:
        identify(file, token)
    return caught.value.status, str(caught.value)


class TestIssued:
    def test_a_token_names_its_analyst_and_privileges(self, path):
        one, two = tokens.add(path, "alice", [4]), tokens.add(path, "bob", [4, 1])
        file = TokenFile(path)
        assert identify(file, one) == Analyst("alice", 4)
        assert identify(file, two) == Analyst("bob", (4, 1))
        assert file.known() == [Analyst("alice", 4), Analyst("bob", (4, 1))]

    def test_the_file_is_for_its_owner_and_holds_no_token(self, path):
        token = tokens.add(path, "alice", [4])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert token not in path.read_text()
        assert token.split("_", 2)[2] not in path.read_text()
        (entry,) = tokens.entries(path)
        assert entry.hash == hashlib.sha256(token.encode()).hexdigest()
        assert entry.hash not in repr(entry)

    def test_tokens_have_256_random_bits_and_name_their_service(self, path):
        found = [tokens.add(path, f"a{i}", [1]) for i in range(20)]
        assert len(set(found)) == 20
        assert len({token.split("_")[1] for token in found}) == 1
        assert all(len(token.split("_", 2)[2]) == 43 for token in found)
        assert all(tokens.TOKEN.fullmatch(token) for token in found)

    @pytest.mark.parametrize(
        "name", ["", "owner", "analyst", "a b", "a#1", "-a", "a" * 65, "ä", "a/b"]
    )
    def test_unusable_names_are_refused(self, path, name):
        with pytest.raises(RequestError):
            tokens.add(path, name, [1])
        assert not path.exists()

    @pytest.mark.parametrize("privilege", [[], [0], [11], [1, 1], [True], [1.5]])
    def test_unusable_privileges_are_refused(self, path, privilege):
        with pytest.raises(RequestError):
            tokens.add(path, "alice", privilege)

    def test_an_analyst_is_added_once(self, path):
        tokens.add(path, "alice", [1])
        with pytest.raises(RequestError, match="renew"):
            tokens.add(path, "alice", [1])

    def test_a_day_that_is_none_is_refused(self, path):
        with pytest.raises(RequestError, match="'tomorrow' is not a day"):
            tokens.add(path, "alice", [1], "tomorrow")


class TestRefused:
    def test_all_refusals_say_the_same(self, path, tmp_path):
        good = tokens.add(path, "alice", [4])
        revoked = tokens.add(path, "bob", [4])
        expired = tokens.add(path, "carol", [4], "2020-01-01")
        renewed = tokens.add(path, "dave", [4])
        foreign = tokens.add(tmp_path / "other.json", "alice", [4])
        tokens.revoke(path, "bob")
        tokens.renew(path, "dave")
        file = TokenFile(path)
        unknown = good[:-1] + ("A" if good[-1] != "A" else "B")
        assert identify(file, good).name == "alice"
        said = {
            refusal(file, token) for token in (revoked, expired, renewed, foreign, unknown, "x")
        }
        assert len(said) == 1
        assert next(iter(said))[0] == 401

    def test_a_copied_hash_of_another_service_lets_nobody_in(self, path, tmp_path):
        own, other = tokens.add(path, "alice", [4]), tmp_path / "other.json"
        foreign = tokens.add(other, "bob", [4])
        data = json.loads(path.read_text())
        data["analysts"] += json.loads(other.read_text())["analysts"]
        path.write_text(json.dumps(data))
        file = TokenFile(path)
        swapped = foreign.replace(foreign.split("_")[1], own.split("_")[1])
        assert [entry.name for entry in tokens.entries(path)] == ["alice", "bob"]
        assert refusal(file, foreign) == refusal(file, swapped) == refusal(file, "x")
        assert identify(file, own).name == "alice"
        assert identify(TokenFile(other), foreign).name == "bob"

    def test_a_token_holds_through_its_last_day(self, path):
        today = datetime.datetime.now(datetime.UTC).date()
        token = tokens.add(path, "alice", [4], today.isoformat())
        assert identify(TokenFile(path), token).name == "alice"

    def test_and_not_a_day_longer(self, path):
        yesterday = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=1)
        token = tokens.add(path, "alice", [4], yesterday.isoformat())
        assert refusal(TokenFile(path), token) == refusal(TokenFile(path), "x")

    def test_a_revoked_token_is_refused_before_its_last_day_too(self, path):
        token = tokens.add(path, "alice", [4], "9999-12-31")
        assert identify(TokenFile(path), token).name == "alice"
        tokens.revoke(path, "alice")
        assert refusal(TokenFile(path), token) == refusal(TokenFile(path), "x")

    @pytest.mark.parametrize("place", [0, 31, 32, 63])
    def test_a_hash_that_differs_anywhere_lets_nobody_in(self, path, place):
        token = tokens.add(path, "alice", [4])
        (entry,) = tokens.entries(path)
        other = "0" if entry.hash[place] != "0" else "1"
        changed = entry.hash[:place] + other + entry.hash[place + 1 :]
        path.write_text(path.read_text().replace(entry.hash, changed))
        assert refusal(TokenFile(path), token) == refusal(TokenFile(path), "x")

    @pytest.mark.parametrize(
        "sent",
        [
            [],
            [(b"authorization", b"")],
            [(b"authorization", b"Bearer")],
            [(b"authorization", b"Basic YTpi")],
            [(b"authorization", b"Bearer a b")],
            [(b"authorization", b"Bearer \xff")],
            [(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")],
            [(b"cookie", b"token=a")],
            [(b"x-forwarded-user", b"alice")],
        ],
    )
    def test_anything_but_one_bearer_header_is_no_token(self, sent):
        with pytest.raises(RefusedError):
            bearer(sent)


class TestFile:
    def test_changes_hold_at_once(self, path):
        token = tokens.add(path, "alice", [4])
        file = TokenFile(path)
        assert identify(file, token).name == "alice"
        tokens.revoke(path, "alice")
        assert refusal(file, token)[0] == 401
        assert file.known() == []
        fresh = tokens.renew(path, "alice")
        assert identify(file, fresh).name == "alice"
        assert refusal(file, token)[0] == 401

    @pytest.mark.parametrize("damage", ["garbage", "empty", "shape", "twice", "list", "service"])
    def test_a_damaged_file_keeps_the_tokens_that_it_held(self, path, damage, caplog):
        token, revoked = tokens.add(path, "alice", [4]), tokens.add(path, "bob", [1])
        tokens.revoke(path, "bob")
        file, good = TokenFile(path), path.read_text()
        data = json.loads(good)
        data["analysts"] *= 2 if damage == "twice" else 1
        data["analysts"][0]["hash"] = "" if damage == "shape" else data["analysts"][0]["hash"]
        data["service"] = 1 if damage == "service" else data["service"]
        texts = {"garbage": good[:-40], "empty": "", "list": "[]"}
        path.write_text(texts.get(damage, json.dumps(data)))
        for _ in range(3):
            assert identify(file, token).name == "alice"
            assert refusal(file, revoked)[0] == 401
            assert not file.ready()
        assert caplog.text.count("The tokens that it held stay in force.") == 1
        with pytest.raises(RequestError, match="token file"):
            TokenFile(path)
        path.write_text(good)
        os.utime(path)
        assert file.ready()
        assert identify(file, token).name == "alice"

    def test_what_can_be_read_of_a_damaged_file_counts(self, path):
        """New analysts are let in, and who is revoked, renewed or given less there is so at once."""
        alice, bob, carol = (tokens.add(path, name, [4]) for name in ("alice", "bob", "carol"))
        file = TokenFile(path)
        tokens.revoke(path, "bob")
        again, dave = tokens.renew(path, "carol"), tokens.add(path, "dave", [2])
        data = json.loads(path.read_text())
        data["analysts"][0]["hash"] = "no hash"
        path.write_text(json.dumps(data))
        assert [identify(file, token).name for token in (alice, again, dave)] == [
            "alice", "carol", "dave",
        ]  # fmt: skip
        assert {refusal(file, token)[0] for token in (bob, carol)} == {401}

    @pytest.mark.parametrize("withdraw", ["revoke", "renew", "remove"])
    def test_a_revocation_never_comes_back(self, path, withdraw):
        """An older copy of the file does not let in again whom this service has seen revoked."""
        token, other = tokens.add(path, "alice", [4]), tokens.add(path, "bob", [4])
        file, older = TokenFile(path), path.read_text()
        getattr(tokens, withdraw)(path, "alice")
        assert refusal(file, token)[0] == 401
        for text in ("{", older):
            path.write_text(text)
            os.utime(path)
            assert refusal(file, token)[0] == 401
            assert identify(file, other).name == "bob"

    @pytest.mark.parametrize("damage", ["delete", "mode"])
    def test_a_file_that_is_gone_or_open_to_others_lets_nobody_in(self, path, damage):
        token = tokens.add(path, "alice", [4])
        file, good = TokenFile(path), path.read_text()
        if damage == "delete":
            path.unlink()
        else:
            path.chmod(0o644)
        assert refusal(file, token)[0] == 401
        assert not file.ready()
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(good)
        assert file.ready()
        assert identify(file, token).name == "alice"

    @pytest.mark.parametrize("privilege", [0, 11, "4", None, [], [4, 4], [True], 2.5])
    def test_a_wrong_privilege_keeps_out_its_analyst_alone(self, path, privilege, caplog):
        alice, bob = tokens.add(path, "alice", [4]), tokens.add(path, "bob", [1])
        data = json.loads(path.read_text())
        data["analysts"][0]["privilege"] = privilege
        path.write_text(json.dumps(data))
        file = TokenFile(path)
        assert refusal(file, alice)[0] == 401
        assert identify(file, bob).name == "bob"
        assert file.known() == [Analyst("bob", 1)]
        assert (file.ready(), file.top) == (True, 1)
        assert "alice is kept out: " in caplog.text
        tokens.set_privilege(path, "alice", [2])
        assert identify(file, alice) == Analyst("alice", 2)

    def test_a_privilege_may_be_written_without_a_list(self, path):
        token = tokens.add(path, "alice", [4])
        path.write_text(
            path.read_text().replace('"privilege": [\n        4\n      ]', '"privilege": 3')
        )
        assert identify(TokenFile(path), token) == Analyst("alice", 3)

    def test_another_privilege_keeps_the_token(self, path):
        token = tokens.add(path, "alice", [4])
        file = TokenFile(path)
        tokens.set_privilege(path, "alice", [2, 1])
        assert identify(file, token) == Analyst("alice", (2, 1))
        for wrong in ([], [0], [11]):
            with pytest.raises(RequestError):
                tokens.set_privilege(path, "alice", wrong)
        with pytest.raises(RequestError, match="no analyst 'bob'"):
            tokens.set_privilege(path, "bob", [2])
        with pytest.raises(RequestError, match="no analyst 'bob'"):
            tokens.remove(path, "bob")

    def test_one_that_cannot_be_replaced_stays_as_it_was(self, path, monkeypatch):
        def full(descriptor):
            raise OSError(28, "No space left on device")

        token = tokens.add(path, "alice", [4])
        before = path.read_text()
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            with pytest.raises(RequestError, match="cannot be written") as refusal:
                tokens.revoke(path, "alice")
        assert refusal.value.hint == "Check its folder."
        assert path.read_text() == before
        assert not list(path.parent.glob(".tokens.json.*.*"))
        assert identify(TokenFile(path), token).name == "alice"
        tokens.revoke(path, "alice")
        assert not TokenFile(path).known()

    @pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602])
    def test_a_file_that_anybody_else_may_use_lets_nobody_in(self, path, mode):
        token = tokens.add(path, "alice", [4])
        file = TokenFile(path)
        path.chmod(mode)
        assert refusal(file, token)[0] == 401
        with pytest.raises(RequestError, match="can be read by other users"):
            TokenFile(path)


def test_no_change_is_lost_beside_another_one(tmp_path):
    """A revocation holds, however many analysts are let in at the same time."""
    import threading

    path = tmp_path / "tokens.json"
    tokens.add(path, "victim", [1])
    starting = threading.Barrier(3)

    def let_in(letter):
        starting.wait()
        for i in range(15):
            tokens.add(path, f"{letter}{i}", [1])

    def shut_out():
        starting.wait()
        tokens.revoke(path, "victim")

    workers = [threading.Thread(target=let_in, args=(letter,)) for letter in "ab"]
    workers.append(threading.Thread(target=shut_out))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = {entry.name: entry.revoked for entry in tokens.entries(path)}
    assert len(found) == 31
    assert found["victim"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "tokens.json", tmp_path / "tokens.json"
    tokens.add(real, "alice", [1])
    link.symlink_to(real)
    tokens.revoke(link, "alice")
    assert link.is_symlink()
    assert [entry.revoked for entry in tokens.entries(real)] == [True]
