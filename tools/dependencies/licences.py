"""Under which licences penstock's dependencies are, as SPDX expressions, and which of them may be.

penstock is under Apache-2.0 and hands nothing of its dependencies on by itself: whoever installs it gets them from
their publishers. What is allowed is what a product under Apache-2.0 may depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from license_expression import ExpressionError, get_spdx_licensing

PUBLIC_DOMAIN = "LicenseRef-public-domain"
PERMISSIVE = frozenset(
    f"0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause CC0-1.0 ISC MIT MIT-0 PSF-2.0 Unlicense {PUBLIC_DOMAIN}".split()
)
UNCHANGED_ONLY = frozenset({"MPL-2.0"})
"""Asks for the source of changed files; none is changed here."""
ALLOWED = PERMISSIVE | UNCHANGED_ONLY

UNKNOWN = "LicenseRef-unknown"

NAMES = {
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license, version 2.0": "Apache-2.0",
    "bsd 2-clause license": "BSD-2-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "go license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mit license (mit)": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "public domain, per creative commons cc0": "CC0-1.0",
}
"""What publishers write in place of SPDX's names; without "the" before it, in lower case."""

READ = {
    "alabaster": "BSD-3-Clause",
    "atheris": "Apache-2.0",
    "cronsim": "BSD-3-Clause",
    "docutils": f"{PUBLIC_DOMAIN} AND BSD-2-Clause AND BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "pyreqwest": "Apache-2.0",
    "pysocks": "BSD-3-Clause",
    "requests-oauthlib": "ISC",
    "sphinxcontrib-applehelp": "BSD-2-Clause",
    "sphinxcontrib-devhelp": "BSD-2-Clause",
    "sphinxcontrib-htmlhelp": "BSD-2-Clause",
    "sphinxcontrib-jsmath": "BSD-2-Clause",
    "sphinxcontrib-qthelp": "BSD-2-Clause",
    "sphinxcontrib-serializinghtml": "BSD-2-Clause",
    "uvloop": "Apache-2.0 OR MIT",
}
"""Packages whose metadata do not say, or not exactly: what the text of the licence in the package is."""

_SPDX = get_spdx_licensing()


def of_package(name: str, *, expression: str | None, text: str | None, classifiers: Sequence[str]) -> str:
    """The licence of a Python package, by what its metadata say of it."""
    if name in READ:
        return READ[name]
    if expression:
        return expression
    first_line = (text or "").strip().partition("\n")[0]
    if found := named(first_line):
        return found
    marked = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: OSI Approved :: ")]
    known = [found for one in marked if (found := named(one))]
    return " AND ".join(sorted(set(known))) if known and len(known) == len(marked) else UNKNOWN


def of_jar(names: Iterable[str]) -> str:
    """The licence of a jar, of which its publisher lists those to choose from."""
    found = [named(name) or UNKNOWN for name in names]
    return " OR ".join(found) if found else UNKNOWN


def named(name: str) -> str | None:
    """The SPDX expression that somebody's name of a licence stands for."""
    plain = name.strip()
    if plain and " " not in plain.replace(" OR ", "|").replace(" AND ", "&") and _SPDX.validate(plain).errors == []:
        return plain
    return NAMES.get(plain.lower().removeprefix("the "))


def is_allowed(expression: str, allowed: frozenset[str] = ALLOWED) -> bool:
    """Whether the expression leaves a choice in which every licence is allowed."""
    try:
        parsed = _SPDX.parse(expression)
    except ExpressionError:
        return False
    return parsed is not None and _holds(parsed, allowed)


def _holds(expression: object, allowed: frozenset[str]) -> bool:
    parts: Sequence[object] = getattr(expression, "args", ())
    if isinstance(expression, _SPDX.OR):
        return any(_holds(part, allowed) for part in parts)
    if isinstance(expression, _SPDX.AND):
        return all(_holds(part, allowed) for part in parts)
    return str(expression) in allowed
