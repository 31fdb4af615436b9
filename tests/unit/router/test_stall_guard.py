"""A partition that stands still: the query is replaced, then the process ends."""

from penstock.router.watchdogs import END_SECONDS, REPLACE_SECONDS, StallGuard, StallVerdict

A_LITTLE = 0.1


def test_being_late_for_a_while_is_no_reason_to_do_anything() -> None:
    assert StallGuard().evaluate({0: REPLACE_SECONDS, 3: 1.0}, steady=True) is StallVerdict.GO_ON
    assert StallGuard().evaluate({}, steady=True) is StallVerdict.GO_ON


def test_a_single_partition_that_stands_still_has_the_query_replaced() -> None:
    assert StallGuard().evaluate({0: 0.0, 3: REPLACE_SECONDS + A_LITTLE}, steady=True) is StallVerdict.REPLACE


def test_the_process_ends_where_another_query_does_not_help() -> None:
    guard = StallGuard()
    guard.evaluate({3: REPLACE_SECONDS + A_LITTLE}, steady=False)
    assert guard.evaluate({3: REPLACE_SECONDS + A_LITTLE}, steady=False) is StallVerdict.GO_ON
    assert guard.evaluate({3: END_SECONDS + A_LITTLE}, steady=False) is StallVerdict.END


def test_a_good_while_later_a_stall_is_the_first_one_again() -> None:
    guard = StallGuard()
    guard.evaluate({3: REPLACE_SECONDS + A_LITTLE}, steady=False)
    guard.evaluate({}, steady=True)
    assert guard.evaluate({1: REPLACE_SECONDS + A_LITTLE}, steady=True) is StallVerdict.REPLACE
