"""Figures for people: what they are called, and numbers with every digit, or three of them and an SI prefix."""

from __future__ import annotations

from decimal import Decimal

PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")


#: Figure of a whole model -> what it is called; of the count the convention says it.
TITLES = {
    "macs": "MACs",
    "flops": "FLOPs",
    "params": "parameters",
    "buffers": "buffers",
    "weight_bytes": "weight bytes",
    "activations": "activation elements",
    "input_bytes": "input bytes",
    "output_bytes": "output bytes",
    "peak_activation_bytes": "peak activation bytes",
    "state_bytes": "state bytes",
}


def count_title(unit: str, convention: str) -> str:
    """What counts of a convention are called: its unit, and its name where that says more.

    >>> count_title("FLOP", "flops"), count_title("MAC", "fvcore")
    ('FLOPs', 'MACs (fvcore)')
    """
    return f"{unit}s" if convention == f"{unit}s".lower() else f"{unit}s ({convention})"


def exact(number: int, unit: str = "") -> str:
    """Every digit, in groups of three.

    >>> exact(4089184256), exact(96, "B")
    ('4,089,184,256', '96 B')
    """
    return f"{number:,}" + (f" {unit}" if unit else "")


def human(number: int, unit: str = "") -> str:
    """Three significant digits and an SI prefix (k = 1000); below 1000 every digit.

    >>> human(4089184256), human(8211110912, "FLOP"), human(999950), human(12)
    ('4.09 G', '8.21 GFLOP', '1.00 M', '12')
    """
    if abs(number) < 1000:
        return exact(number, unit)
    mantissa, _, power = f"{Decimal(number):.2e}".partition("e")
    group = min(int(power) // 3, len(PREFIXES) - 1)
    digits = f"{Decimal(mantissa).scaleb(int(power) - 3 * group):.{max(2 - (int(power) - 3 * group), 0)}f}"
    return f"{digits} {PREFIXES[group]}{unit}"


def percent(share: float) -> str:
    """A share of 100 with one decimal; what is there but would round to nothing is "<0.1" or "> -0.1".

    >>> percent(12.345), percent(0.01), percent(0), percent(-0.01)
    ('12.3', '<0.1', '0.0', '> -0.1')
    """
    if -0.05 < share < 0:
        return "> -0.1"
    return "<0.1" if 0 < share < 0.05 else f"{share:.1f}"


def ratio(value: float) -> str:
    """A quotient with three significant digits, and no fraction from 100 on.

    >>> ratio(0), ratio(0.0834), ratio(3.14159), ratio(41.66), ratio(1234.5)
    ('0', '0.0834', '3.14', '41.7', '1,234')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{Decimal(value):.3g}" if value else "0"
