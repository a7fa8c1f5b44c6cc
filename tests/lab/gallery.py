"""A notebook that shows every kind of result once: its cells, by what they show."""

from __future__ import annotations

SETUP = """
import numpy as np, pandas as pd
import dpnb
from tests.kit import decisions as sample_decision, explanations as sample, inferences as past
from tests.kit import noise, repeatable
from dataclasses import replace
from dpnb.display.widgets import display_result
repeatable.draw_from(noise.DiscreteNoise(7))
%load_ext dpnb

adult = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=6, delta=1e-6))
names = ["north", "east", "south", "empty"]
people = pd.DataFrame({
    "region": [name for name, rows in zip(names, (3000, 2000, 4, 0)) for _ in range(rows)],
    "town": ["Ulm", "Bonn", "Jena", "Trier"] * 1251,
    "pay": [i * 7919 % 90_000 for i in range(5004)],
})
schema = dpnb.Schema({
    "region": dpnb.Category(names),
    "pay": dpnb.Integer(0, 100_000, bins=[0, 20_000, 40_000, 60_000, 80_000, 100_000]),
}, undeclared=["town"])

def curated(public=False):
    return dpnb.Curator(
        [dpnb.Table("people", people, schema, public=public)], views=[["region"], ["pay"]],
        budget=dpnb.Budget(epsilon=4, delta=1e-6, key_delta=1e-7),
        analysts={"alice": 4, "bob": 1, "carol-of-the-long-name@hospital.example": 2},
    )

curator = curated()
alice, bob = curator.session("alice"), curator.session("bob")

def refused(*asked):
    for ask in asked:
        try:
            ask()
        except dpnb.DpnbError:
            get_ipython().showtraceback()
        else:
            raise AssertionError("was not refused")
"""

BY_STATUS = "SELECT marital_status, COUNT(*) AS n FROM adult GROUP BY marital_status"
INCOME = (
    "SELECT marital_status, AVG(high_income) AS share FROM adult "
    "GROUP BY marital_status ORDER BY share DESC"
)
PAIR = '"Married-civ-spouse", "Never-married"'
DECISION = (
    "SELECT education, COUNT(*) AS n, AVG(age) AS mean FROM adult "
    "GROUP BY education HAVING COUNT(*) > 800 AND AVG(age) > 40"
)
GAIN = "SELECT SUM(capital_gain) AS gain FROM adult"

CELLS = {
    "risk: picker": (
        "from dpnb.display.cards.risk_widget import display_picker\n"
        'display_picker(curated().risk("SELECT SUM(pay) AS pay FROM people", by="region").widget(),'
        " 'widget')"
    ),
    "risk: picker of public data": (
        'display_picker(curated(public=True).risk("SELECT SUM(pay) AS pay FROM people", by="region")'
        ".widget(), 'widget')"
    ),
    "answer: one number": 'adult.query("SELECT COUNT(*) AS n FROM adult", rho=0.005)',
    "answer: one group column": f'by_status = adult.query("{BY_STATUS}", rho=0.02)\nby_status',
    "answer: two group columns": (
        'adult.query("SELECT sex, race, COUNT(*) AS n, AVG(hours_per_week) AS hours '
        'FROM adult GROUP BY sex, race", rho=0.05)'
    ),
    "answer: many groups": (
        'adult.query("SELECT native_country, COUNT(*) AS n FROM adult '
        'GROUP BY native_country ORDER BY n DESC", rho=0.02)'
    ),
    "answer: ratio": (
        'adult.query("SELECT sex, SUM(high_income) / COUNT(*) AS ratio, '
        'SUM(capital_gain) - SUM(capital_loss) AS gain FROM adult GROUP BY sex", rho=0.02)'
    ),
    "answer: average": f'income = adult.query("{INCOME}", rho=0.05)\nincome',
    "answer: quantile": (
        'adult.query("SELECT sex, MEDIAN(age) AS middle, STDDEV(age) AS spread '
        'FROM adult GROUP BY sex", rho=0.05)'
    ),
    "answer: by error": (
        'adult.query("SELECT sex, COUNT(*) AS n, AVG(hours_per_week) AS hours FROM adult '
        'WHERE age BETWEEN 25 AND 60 GROUP BY sex", error={"n": 40, "hours": 1.5}, rows=1000)'
    ),
    "answer: merged from history": (
        'adult.query("SELECT COUNT(*) AS n FROM adult '
        "WHERE marital_status IN ('Divorced', 'Widowed')\", error=100)"
    ),
    "answer: asked again": f'adult.query("{BY_STATUS}", rho=0.02)',
    "answer: any look": (
        'adult.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", rho=0.01)\n'
        'adult.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", rho=0.02, looks="any")'
    ),
    "answer: LIMIT hides groups": (
        'adult.query("SELECT education, COUNT(*) AS n FROM adult '
        'GROUP BY education ORDER BY n DESC LIMIT 3", rho=0.02)'
    ),
    "answer: an empty group, and one of too few rows": (
        'alice.query("SELECT region, COUNT(*) AS n, AVG(pay) AS pay FROM people '
        'GROUP BY region", rho=0.02)'
    ),
    "answer: test noise": (
        "test = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=1),"
        " noise=noise.DiscreteNoise(3))\n"
        'test.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", epsilon=0.1)'
    ),
    "answer: live": "display_result(income, 'widget')",
    "price": f'adult.price("{BY_STATUS}", rho=0.1)',
    "price: of a mean, by error": (
        'adult.price("SELECT sex, AVG(age) AS age, AVG(age) / AVG(hours_per_week) AS ratio '
        'FROM adult GROUP BY sex", rho=0.02)'
    ),
    "price: with past answers": (
        "adult.price(\"SELECT COUNT(*) AS n FROM adult WHERE marital_status IN ('Divorced', "
        "'Separated')\", error=60)"
    ),
    "price: free": f'adult.price("{BY_STATUS}", rho=0.01)',
    "price: too dear": f'adult.price("{BY_STATUS}", rho=10)',
    "price: several statements": (
        f"%%dpquery --rho 0.01 --dry-run --on adult\n{BY_STATUS};\nSELECT AVG(age) AS age FROM adult"
    ),
    "price: an explanation": f"adult.price(income.compare({PAIR}), rho=0.2)",
    "price: a decision": f'adult.price("{DECISION}", beta=0.05)',
    "price: coins": f'adult.price("{DECISION}", beta=0.05, mode="rr")',
    "price: a discovery": 'alice.price_discovery("town", rho=0.05)',
    "question: real": f"income.compare({PAIR})",
    "question: may be noise": 'income.compare("Married-AF-spouse", "Married-civ-spouse")',
    "question: in counts": 'by_status.compare("Divorced", "Widowed")',
    "question: not known": (
        "small = alice.query('SELECT region, AVG(pay) AS pay FROM people GROUP BY region', rho=0.02)\n"
        'small.compare("north", "empty")'
    ),
    "explanation": f"adult.explain(income.compare({PAIR}), rho=0.2)",
    "explanation: no shares": "sample.absolute()",
    "explanation: live": "display_result(sample.explanation(), 'widget')",
    "explanation: not real": (
        "%%dpexplain income --on adult\n'Married-AF-spouse' > 'Married-civ-spouse'"
    ),
    "inference": (
        "adult.infer(\"SELECT COUNT(*) AS n FROM adult WHERE marital_status IN ('Divorced', "
        "'Widowed')\")"
    ),
    "inference: groups": "past.groups()",
    "inference: bounds": "past.guaranteed()",
    "inference: claim": f'adult.infer("{BY_STATUS}", error=50)',
    "inference: live": "display_result(past.inference(), 'widget')",
    "decision": f'adult.decide("{DECISION}", steps=2)',
    "decision: one condition": "sample_decision.decision()",
    "decision: coins": "sample_decision.response()",
    "decision: nothing selected": (
        'adult.decide("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex '
        'HAVING COUNT(*) > 60000", steps=1)'
    ),
    "decision: refined": "sample_decision.refined()",
    "decision: live": "display_result(sample_decision.decision(further=lambda step: None), 'widget')",
    "risk: notice": f"%%dprisk --on adult --static\n{GAIN}",
    "risk: profile of public data": (
        'curated(public=True).risk("SELECT SUM(pay) AS pay FROM people")'
    ),
    "risk: suggestion": 'curator.risk("SELECT SUM(pay) AS pay FROM people").suggest(tau=0.9)',
    "risk: private choice": (
        'curator.risk("SELECT SUM(pay) AS pay FROM people").choose(guesses=55, at_most=100)'
    ),
    "risk: safe counts": (
        'curator.risk("SELECT SUM(pay) AS pay FROM people").safe_counts(guesses=55, at_most=100)'
    ),
    "risk: private histogram": (
        'curator.risk("SELECT SUM(pay) AS pay FROM people").share(epsilon=0.2)'
    ),
    "discovery": 'alice.discover("town", rho=0.05)',
    "discovery: nothing found": 'bob.discover("town", rho=0.00001)',
    "provenance": (
        'bob.query("SELECT COUNT(*) AS rich FROM people WHERE pay > 60000", rho=0.004)\n'
        "curator.provenance"
    ),
    "provenance: nobody asked": "curated().provenance",
    "coalition": 'curator.coalition("alice", "bob")',
    "bill": "adult.budget.bill",
    "budget": "adult.budget",
    "budget: of one analyst": "bob.budget",
    "history": "adult.history",
    "history: empty": "curated().session('bob').history",
    "tables": "adult.tables",
    "session": "adult",
    "rehearsal": (
        "tried = adult.rehearse(1000)\n"
        'tried.query("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex", rho=0.02)'
    ),
    "rehearsal: magic": "%dprehearse --on adult --rows 1000",
    "opened": "%dpopen adult",
    "refused: statements": (
        "refused(\n"
        '    lambda: adult.query("SELECT MAX(age) FROM adult", rho=0.01),\n'
        '    lambda: adult.query("SELECT COUNT(*) FROM adult WHERE sex = \'Femal\'", rho=0.01),\n'
        '    lambda: adult.query("SELECT COUNT(*) FROM adul", rho=0.01),\n'
        ")"
    ),
    "refused: requests": (
        "refused(\n"
        '    lambda: adult.query("SELECT COUNT(*) FROM adult"),\n'
        '    lambda: adult.query("SELECT COUNT(*) FROM adult", rho="much"),\n'
        '    lambda: adult.infer("SELECT COUNT(*) AS n FROM adult WHERE capital_gain > 5"),\n'
        '    lambda: adult.explain(income.compare("Married-AF-spouse", "Married-civ-spouse")),\n'
        '    lambda: get_ipython().run_line_magic("dpbudget", "--on nobody"),\n'
        ")"
    ),
    "refused: budgets": (
        "refused(\n"
        '    lambda: adult.query("SELECT COUNT(*) FROM adult", rho=10),\n'
        '    lambda: bob.query("SELECT COUNT(*) FROM people", rho=1),\n'
        '    lambda: bob.discover("town", rho=0.01, delta=0.5),\n'
        f'    lambda: adult.query_all(["{BY_STATUS}", "{BY_STATUS} LIMIT 2"], rho=4),\n'
        ")"
    ),
    "refused: others": (
        "refused(\n"
        "    lambda: dpnb.Schema.load('nowhere.toml'),\n"
        "    lambda: dpnb.Session(dpnb.datasets.adult(), ledger='/nowhere/adult.ledger',\n"
        "        budget=dpnb.Budget(rho=1)),\n"
        ")"
    ),
}  # fmt: skip
"""What each shows, and its source."""
