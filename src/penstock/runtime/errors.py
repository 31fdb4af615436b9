"""A failure told to people: what happened, and what to do next.

Everything in the engine that the user can put right raises a UserError; the command prints it without a traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right."""

    def __init__(self, what: str, remedy: str = "", details: tuple[str, ...] = (), exit_code: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.details = details
        """Lines to show with it, such as the end of a log."""
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()
