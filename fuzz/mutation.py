"""Changes of bytes, for where no coverage-guided fuzzer is installed, and for the short runs of the tests."""

from __future__ import annotations

import random
from collections.abc import Sequence

#: Bytes that steer parsers.
_STEERING = (0, 1, 0x7F, 0x80, 0xFF, 0x0A, ord("{"), ord('"'), ord("-"), ord("="), ord(":"))


def mutated(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the seeds with a few changes."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        place = chance.randrange(len(data) + 1)
        kind = chance.random()
        if kind < 0.4 and data:
            data[place % len(data)] = chance.choice(_STEERING) if chance.random() < 0.5 else chance.randrange(256)
        elif kind < 0.55:
            data[place:place] = bytes(chance.choice(_STEERING) for _ in range(chance.choice((1, 2, 4, 8))))
        elif kind < 0.7:
            del data[place : place + chance.choice((1, 2, 4, 16, 64))]
        elif kind < 0.85:
            end = place + chance.choice((2, 8, 32, 128))
            data[place:place] = data[place:end]
        else:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) + 1)
            data[place:place] = other[start : start + 64]
    return bytes(data)
