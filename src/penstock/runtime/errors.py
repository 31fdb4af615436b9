"""The error that is shown to the user: what is wrong, and what to do about it.

Whatever the user can fix (a setting, a file, a port in use) raises a UserError; the command prints it without a
traceback and exits with its code.
"""

from __future__ import annotations


class UserError(Exception):
    """Something the user can fix."""

    def __init__(self, what: str, remedy: str = "", details: tuple[str, ...] = (), exit_code: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.details = details
        """Lines to show below the message, such as the end of a log."""
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()
