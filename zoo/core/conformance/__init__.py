"""Proof that a network keeps the contract of the zoo, for the zoo's own and for anyone's.

Write a :class:`Case`, the function that makes a module and its data, and call :func:`check` in a test or
:func:`verify` for a report. :func:`small_problem` makes module and data of a bare network and arrays.
"""

from zoo.core.conformance.case import Case, Rung
from zoo.core.conformance.ladder import RUNGS, check, describe, verify
from zoo.core.conformance.problem import small_problem

__all__ = ["RUNGS", "Case", "Rung", "check", "describe", "small_problem", "verify"]
