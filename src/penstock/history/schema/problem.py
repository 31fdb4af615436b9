"""What goes wrong with the history, told to people."""

from __future__ import annotations


class HistoryProblem(Exception):
    """A table or a question that cannot be used as it is. Delivery goes on, whatever it is."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy
