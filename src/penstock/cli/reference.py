"""The reference page of the settings, made from their docstrings by `make docs`.

A test compares the page with the settings, so that every setting is documented.
"""

from __future__ import annotations

from pydantic.fields import FieldInfo

from penstock.settings import Settings

HEAD = """# Settings

Made from `src/penstock/settings.py` by `make docs`; do not edit.

A setting is given as a flag of `penstock dev` (`--port 8081`, or `--set name=value` for those without a flag of their
own), as an environment variable (`PENSTOCK_PORT=8081`), or in `penstock.toml` in the working directory (`port = 8081`);
the first of these that has it is used. An unknown name or an invalid value ends the command with exit code 2
before anything is started; one line for each says where it was found. Lists are written `a,b`.

| setting | default | meaning |
|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    return HEAD + "".join(_row(name, field) for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    if not field.description:
        raise ValueError(f"the setting {name} has no docstring")
    meaning = " ".join(field.description.split()).replace("|", "\\|")
    return f"| `{name}` | {_default(field.default)} | {meaning} |\n"


def _default(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case list():
            return f"`{', '.join(map(str, value))}`"
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    print(page(), end="")
