"""The options of an explanation."""

from __future__ import annotations

from dpnb.releases.accuracy import CONFIDENCE
from dpnb.releases.options import AMOUNT, LIST, TEXT, TRUTH, Option, by_name, or_null, whole

OPTIONS = (
    Option("k", whole(1, 100), 5, "whole", "predicates to show, at most; 5 by default"),
    Option("rho", or_null({"anyOf": [AMOUNT, by_name(AMOUNT)]}), None, "parts",
           "privacy cost in zCDP: 0.05, :name, or topk=0.05,influence=0.05,rank=0.1; a fifth of what is "
           "left by default"),
    Option("epsilon", or_null(AMOUNT), None, "amount", "privacy cost as epsilon, or :name"),
    Option("error", or_null(AMOUNT), None, "percent", "margin of error of the influences as shown: 2%"),
    CONFIDENCE,
    Option("joint", TRUTH, False, "alone", "confidence for all lines of the table at once"),
    Option("mode", {"enum": ["tight", "paper"]}, "tight", "text",
           "tight (the default), or paper for the published method"),
    Option("lower", AMOUNT, "0.1", "text", "share of the rank's cost for the lower ends; 0.1 by default"),
    Option("attributes", or_null({**LIST, "items": TEXT}), None, "names",
           "columns to explain with; all others by default", metavar="A,B"),
    Option("exclude", {**LIST, "items": TEXT}, (), "names", "columns to leave out; none by default",
           metavar="A,B"),
    Option("length", whole(1, 3), 1, "whole", "attributes in one predicate, 1 to 3; 1 by default"),
    Option("connective", {"enum": ["and", "or"]}, "and", "alone", "join attributes by OR instead of AND",
           flag="any-of", means="or"),
    Option("ranges", TRUTH, False, "alone", "also ranges of neighbouring bins"),
    Option("predicates", or_null({**LIST, "items": TEXT}), None, "list",
           "variable with a list of conditions as in WHERE", metavar="NAME"),
)  # fmt: skip
