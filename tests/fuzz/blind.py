"""Noise that ignores what it is given; how far it goes is for each test to say."""

from __future__ import annotations


class Blind:
    """What all of it has in common: coins and choices that are the same on every table."""

    private = False

    def coins(self, probability, count):
        return [i % 3 == 0 for i in range(count)]

    def largest(self, scores, scale):
        # all candidates occur in every table that is compared, so the first is the same one
        return 0

    def below(self, count):
        return 0
