"""What goes wrong with the history, told to people."""

from __future__ import annotations


class HistoryProblem(Exception):
    """A table or a question that cannot be used as it is. Delivery goes on, whatever it is."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def newer(place: str, written: int, known: int) -> HistoryProblem:
    """Says that a table is not for this version."""
    return HistoryProblem(
        f"The table {place} was written by a newer penstock (schema {written}; this one knows {known}).",
        "Use that version, or choose another place with history_uri.",
    )


def foreign(place: str) -> HistoryProblem:
    """Says that a table is somebody else's."""
    return HistoryProblem(
        f"{place} is a Delta table, but none of penstock's.", "Choose another place with history_uri."
    )
