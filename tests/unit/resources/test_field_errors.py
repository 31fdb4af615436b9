"""The text of field errors."""

from penstock.resources.field_errors import (
    FieldError,
    changed,
    disallowed,
    invalid,
    invalid_key,
    missing,
    render,
    short_diff,
    within,
)


def test_paths_are_prefixed_and_indices_attach_without_a_dot() -> None:
    errors = within("spec", within("filters", within("[0]", [invalid_key("A", "exact")])))
    assert render(errors) == 'invalid key name "A": spec.filters[0].exact'


def test_errors_with_the_same_message_are_merged_and_their_paths_sorted() -> None:
    assert (
        render([missing("spec.subscriber"), missing("spec.broker")]) == "missing field(s): spec.broker, spec.subscriber"
    )


def test_different_errors_are_lines_sorted_by_message() -> None:
    errors = [missing("b"), invalid(-1, "a"), disallowed("c", details="why")]
    assert render(errors) == "invalid value: -1: a\nmissing field(s): b\nmust not set the field(s): c\nwhy"


def test_an_error_about_the_field_itself_has_the_field_as_path() -> None:
    assert within("spec", [FieldError("odd", ("",))]) == [FieldError("odd", ("spec",))]


def test_a_change_is_printed_leaf_by_leaf_with_the_names_of_the_go_types() -> None:
    old = {"channel": {"apiVersion": "v1", "name": "a"}}
    new = {"channel": {"apiVersion": "v2", "name": "a"}}
    assert short_diff("{v1.SubscriptionSpec}", old, new) == (
        '{v1.SubscriptionSpec}.Channel.APIVersion:\n\t-: "v1"\n\t+: "v2"\n'
    )


def test_a_field_that_was_added_has_no_old_line() -> None:
    assert short_diff("{x}", {}, {"name": "b"}) == '{x}.Name:\n\t+: "b"\n'


def test_equal_values_are_no_change() -> None:
    assert changed("Immutable fields changed", "x", {"a": [1]}, {"a": [1]}, "spec") == []
