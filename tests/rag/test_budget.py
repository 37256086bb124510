from __future__ import annotations

import math

import pytest

from localrag.rag.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_no_budget_allows_everything_for_ever(clock: Clock) -> None:
    budget = Budget(0.0, clock)
    clock.now += 1e9
    budget.took("write", 1e9)
    assert budget.seconds_left == math.inf
    assert budget.allows("write", reserve=0.9)
    assert not budget.is_down_to(0.2)
    assert not budget.is_down_to(0.0)


def test_what_is_left_falls_with_the_clock_and_below_zero(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    assert budget.seconds_left == 10.0
    clock.now += 4
    assert budget.seconds_left == 6.0
    clock.now += 10
    assert budget.seconds_left == -4.0
    assert not budget.allows("a step that never was")


def test_a_step_must_fit_as_long_as_its_longest_took(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    budget.took("grade", 3.0)
    budget.took("grade", 1.0)
    clock.now += 6.9
    assert budget.allows("grade")
    clock.now += 0.1
    assert not budget.allows("grade"), "3 s do not fit into 3 s: nothing would be left"
    assert budget.allows("another kind of step")


def test_a_step_that_never_was_is_as_long_as_one_that_it_is_like(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    budget.took("grade", 3.0)
    clock.now += 7.5
    assert not budget.allows("utility", like="grade")
    assert budget.allows("utility", like="something else")
    budget.took("utility", 1.0)
    assert budget.allows("utility", like="grade")


def test_a_reserve_is_left_for_later_steps(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    budget.took("grade", 1.0)
    clock.now += 3.9
    assert budget.allows("grade", reserve=0.5)
    clock.now += 0.2
    assert not budget.allows("grade", reserve=0.5)
    assert budget.allows("grade")


def test_down_to_a_share(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    clock.now += 7.9
    assert not budget.is_down_to(0.2)
    clock.now += 0.1
    assert budget.is_down_to(0.2)
    assert not budget.is_down_to(0.0)
    clock.now += 2.0
    assert budget.is_down_to(0.0)
