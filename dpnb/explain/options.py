"""The options of an explanation: what it costs, how it is shown, and what may explain."""

from __future__ import annotations

from dpnb.releases.accuracy import CONFIDENCE
from dpnb.releases.kinds import AMOUNT, Choice, Named, Part, Percent, Texts, Truth, Whole
from dpnb.releases.options import Option


class Conditions(Texts):
    """A list of conditions; a cell names a variable that holds it."""


COST = (
    Option("rho", Named(AMOUNT), None,
           "privacy cost in zCDP: 0.05, :name, or topk=0.05,influence=0.05,rank=0.1; a fifth of what is "
           "left by default"),
    Option("epsilon", AMOUNT, None, "privacy cost as epsilon, or :name"),
    Option("error", Percent(), None, "margin of error of the influences as shown: 2%"),
)  # fmt: skip
DESIGN = (
    Option("k", Whole(1, 100, 5), 5, "predicates to show, at most; 5 by default"),
    CONFIDENCE,
    Option("joint", Truth(), False, "confidence for all lines of the table at once"),
    Option("mode", Choice(("tight", "paper")), "tight",
           "tight (the default), or paper for the published method"),
    Option("lower", Part(), "0.1", "share of the rank's cost for the lower ends; 0.1 by default"),
)  # fmt: skip
CANDIDATES = (
    Option("attributes", Texts("columns", "['a', 'b']"), None,
           "columns to explain with; all others by default", metavar="A,B"),
    Option("exclude", Texts("columns", "['a', 'b']"), (), "columns to leave out; none by default",
           metavar="A,B"),
    Option("length", Whole(1, 3, 2), 1, "attributes in one predicate, 1 to 3; 1 by default"),
    Option("connective", Choice(("and", "or")), "and", "join attributes by OR instead of AND",
           flag="any-of", means="or"),
    Option("ranges", Truth(), False, "also ranges of neighbouring bins"),
    Option("predicates", Conditions("conditions", '["age > 40"]'), None,
           "variable with a list of conditions as in WHERE", metavar="NAME"),
)  # fmt: skip
OPTIONS = (*COST, *DESIGN, *CANDIDATES)
