"""Two processes serve several analysts of one ledger and are killed at random moments.

No analyst's limit and not the cap is ever passed, no answer is shown without a committed row, and a
repeated identifier gives the same answer, whichever process is asked.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from fractions import Fraction

import pytest

from tests.crash import serving
from tests.kit.dying import entries

LONG = os.environ.get("DPNB_LONG") == "1"
REQUESTS = 200 if LONG else 80


def acknowledged(paths):
    """What was shown; a line that was cut off by a kill does not count."""
    lines = [line for path in paths if path.exists() for line in path.read_text().split("\n")[:-1]]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("mechanism", ["path", "additive", "vanilla"])
def test_two_processes_are_killed(mechanism, workers, tmp_path):
    order = {"mechanism": mechanism, "ledger": str(tmp_path / "l"), "requests": REQUESTS}
    generator = random.Random(mechanism)  # noqa: S311
    acks, number, kills = [], 0, 0
    for _ in range(6 if LONG else 2):
        children = []
        for seed in range(2):
            acks.append(tmp_path / f"acks{number}")
            children.append(workers.start(serving, **order, acks=str(acks[-1]), seed=seed))
            number += 1
        patience = time.time() + 60
        while time.time() < patience and not any(
            path.exists() and path.stat().st_size for path in acks[-2:]
        ):
            time.sleep(0.02)
        time.sleep(generator.uniform(0, 0.3))
        for child in children:
            os.kill(child, signal.SIGKILL)
        codes = workers.wait()
        assert {*codes} <= {0, -signal.SIGKILL}
        kills += codes.count(-signal.SIGKILL)
    assert kills > 0
    # and once to the end
    last = [tmp_path / f"acks{number + seed}" for seed in range(2)]
    for seed, path in enumerate(last):
        workers.start(serving, **order, acks=str(path), seed=seed)
    assert workers.wait() == [0, 0]
    shown = acknowledged([*acks, *last])
    assert len(acknowledged(last)) == 2 * REQUESTS

    answers = [ack for ack in shown if "numbers" in ack]
    refusals = {ack["text"] for ack in shown if "text" in ack}
    assert answers
    assert refusals
    assert all("is left" in text or "budget exhausted" in text for text in refusals)
    # the same identifier of the same analyst: the same answer, whoever was asked and when
    first = {}
    for ack in answers:
        key = ack["analyst"], ack["identifier"]
        assert first.setdefault(key, ack["numbers"]) == ack["numbers"]
    # every answer has its row in the ledger
    charged = [entry for entry in entries(tmp_path / "l") if entry["kind"] == "answer"]
    names = {(entry["analyst"], entry.get("identifier")) for entry in charged}
    requests = {(entry["analyst"], entry["request"]) for entry in charged}
    assert len(requests) == len(charged)
    assert {(ack["analyst"], ack["request"]) for ack in answers} <= requests
    assert len(names) > 1

    curator = serving.opened(mechanism, order["ledger"])
    table = curator.provenance
    counted = serving.COUNTED[mechanism]
    assert curator.budget.spent.level(counted) == sum(
        Fraction(entry["spent"][serving.UNIT[mechanism]]) for entry in charged
    )
    assert not curator.budget.spent.exceeds(curator.budget.cap, counted)
    for row in table.rows:
        assert not row.spent.exceeds(row.limit, counted)
        own = [entry["row"] for entry in charged if entry["analyst"] == row.name]
        unit = serving.UNIT[mechanism]
        assert row.known.level(counted) == sum(Fraction(loss[unit]) for loss in own)
    # asked once more, all of it is stored
    for ack in answers[:: max(1, len(answers) // 20)]:
        again = serving.ask(curator, ack["analyst"], ack["number"])
        assert again.stored
        assert serving.numbers(again) == ack["numbers"]
    curator.close()


def test_two_processes_that_open_a_new_ledger_agree(workers, tmp_path):
    ledger = tmp_path / "l"
    acks = [tmp_path / f"acks{i}" for i in range(2)]
    for path in acks:
        workers.start(
            serving, mechanism="path", ledger=str(ledger), acks=str(path), seed=0, requests=1
        )
    assert workers.wait() == [0, 0]
    one, other = acknowledged(acks)
    assert one["numbers"] == other["numbers"]
    kinds = [entry["kind"] for entry in entries(ledger)]
    assert sorted(kinds) == sorted(["open", "table", "analyst", "analyst", "view", "answer"])
