"""A wrong option is refused in the same words by all who read it: a cell, Python, a service, and its client.

A hint is spelled as its reader writes.
"""

from __future__ import annotations

import json

import httpx
import pandas as pd
import pytest

import dpnb
from dpnb.errors import DpnbError
from dpnb.server import tokens
from dpnb.spelling import with_options
from tests.kit.cells import fresh

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
FEW = f"{SQL} HAVING COUNT(*) > 20"
SUBJECTS = {"query": SQL, "infer": SQL, "decide": FEW, "discover": "city"}
CASES = [
    ("query", {"rho": 0.1}, "confidence", 2.0, "--confidence 2"),
    ("query", {"rho": 0.1}, "confidence", 0.0, "--confidence 0"),
    ("query", {"rho": 0.1}, "confidence", "high", "--confidence high"),
    ("query", {}, "rho", "0", "--rho 0"),
    ("query", {}, "rho", 0, None),
    ("query", {}, "rho", [0.1], None),
    ("query", {}, "rho", True, None),
    ("query", {}, "rho", "-1", "--rho=-1"),
    ("query", {}, "rho", "much", "--rho much"),
    ("query", {}, "rho", "1e30", "--rho 1e30"),
    ("query", {"epsilon": 1}, "rho", "0.1", "--rho 0.1"),
    ("query", {}, "error", 0.0, "--error 0"),
    ("query", {}, "error", -5.0, "--error=-5"),
    ("query", {}, "error", {"m": 5.0}, None),
    ("query", {"rho": 0.1}, "split", "2", None),
    ("query", {"rho": 0.1}, "looks", 7, None),
    ("query", {"rho": 0.1}, "intervals", "all", None),
    ("query", {"rho": 0.1}, "history", "no", None),
    ("infer", {}, "confidence", 1.0, "--confidence 1"),
    ("infer", {}, "method", "guess", "--method guess"),
    ("query", {"error": 5.0}, "rows", 0, "--rows 0"),
    ("query", {"error": 5.0}, "rows", "few", "--rows few"),
    ("query", {}, "error", {"n": "x"}, "--error n=x"),
    ("infer", {}, "chosen", "some", "--chosen some"),
    ("infer", {}, "chosen", 1.5, "--chosen 1.5"),
    ("infer", {}, "between", ["a", 2.0], "--between a 2"),
    ("decide", {}, "beta", 0.0, "--beta 0"),
    ("decide", {}, "alpha", 1.0, "--alpha 1"),
    ("decide", {}, "mode", "fast", "--mode fast"),
    ("decide", {}, "protect", "all", "--protect all"),
    ("decide", {}, "steps", 0, "--steps 0"),
    ("decide", {}, "steps", 99, "--steps 99"),
    ("decide", {}, "steps", 1.5, "--steps 1.5"),
    ("decide", {}, "beta", "rare", "--beta rare"),
    ("decide", {}, "ranges", "wide", "--ranges wide"),
    ("decide", {}, "most", "-1", "--most=-1"),
    ("decide", {}, "u", {"m": 5.0}, "--u m=5"),
    ("decide", {}, "u", -5.0, "--u=-5"),
    ("decide", {}, "rows", {"n": 0.0}, "--rows n=0"),
    ("discover", {}, "rho", "0", "--rho 0"),
    ("discover", {"rho": "0.1"}, "delta", "1", "--delta 1"),
    ("discover", {"rho": "0.1"}, "confidence", 3.0, "--confidence 3"),
    ("discover", {"rho": "0.1"}, "table", "cities", "--table cities"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """One table in this process and behind a service."""
    home = tmp_path_factory.mktemp("people")
    token = tokens.add(home / "tokens", "alice", (1,))
    frame = pd.DataFrame({"sex": ["F", "M"] * 30, "city": ["Bonn", "Ulm", "Bonn"] * 20})
    schema = dpnb.Schema({"sex": dpnb.Category(["F", "M"])}, undeclared=["city"])
    budget = dpnb.Budget(epsilon=3, delta="1e-6", key_delta="1e-7")
    curator = dpnb.Curator(
        [dpnb.Table("people", frame, schema)], budget=budget, analysts={"alice": 1}
    )
    service = curator.serve(port=0, tokens=home / "tokens", background=True)
    client = dpnb.connect(service.url, token=token)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with httpx.Client(base_url=service.url, headers=headers) as http:
        yield curator, client, http
    client.close()
    service.close()
    curator.close()


@pytest.fixture(scope="module")
def shell(places, tmp_path_factory):
    with (
        pytest.MonkeyPatch.context() as patch,
        fresh(tmp_path_factory.mktemp("shell"), patch) as made,
    ):
        made.ip.run_line_magic("load_ext", "dpnb")
        made.ip.user_ns["here"] = places[0].session("alice")
        yield made


@pytest.mark.parametrize(
    ("verb", "beside", "name", "value", "line"), CASES, ids=[f"{c[0]}-{c[2]}-{c[3]}" for c in CASES]
)
def test_it_is_the_same_everywhere(verb, beside, name, value, line, places, shell):
    curator, client, http = places
    subject, options = SUBJECTS[verb], {**beside, name: value}
    said = {}
    for reader, session in (("python", curator.session("alice")), ("client", client)):
        with pytest.raises(DpnbError) as found:
            getattr(session, verb)(subject, **options)
        said[reader] = found.value.what, found.value.hint
    entry = "column" if verb == "discover" else "sql"
    reply = http.post(f"/v2/{verb}", content=json.dumps({entry: subject, "options": options}))
    assert reply.status_code == 400, reply.text
    said["http"] = reply.json()["what"], reply.json()["hint"]
    if line is not None:
        flags = " ".join([line, *(f"--{one} {number}" for one, number in beside.items())])
        cell = (
            f"%dpdiscover {subject} {flags}"
            if verb == "discover"
            else f"%%dp{verb} {flags} --on here\n{subject}"
        )
        ran = shell.run(cell)
        assert isinstance(ran.error, DpnbError), ran.error
        assert ran.error.hint == with_options(said["python"][1])
        said["cell"] = ran.error.what, said["python"][1]
    assert len(set(said.values())) == 1, said
    assert curator.session("alice").budget.spent.rho == 0
