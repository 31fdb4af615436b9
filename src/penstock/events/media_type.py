"""Media types as far as CloudEvents cares: is it one, is it JSON, is it text, which CloudEvents format is it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"(?:[\t !#-\[\]-~]|\\[\t -~])*"'
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*(?:({_WORD})=({_WORD}|{_QUOTED}))?")
_ESSENCE = re.compile(rf"({_WORD})/({_WORD})")

_CACHED_LENGTH = 128
"""Longer ones are parsed each time: a hostile sender must not fill the cache with them."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed media type, in lower case."""

    essence: str
    """Type and subtype, such as `application/json`."""
    charset: str | None = None

    @property
    def is_json(self) -> bool:
        return self.essence.endswith(("/json", "+json"))

    @property
    def is_text(self) -> bool:
        return self.essence.startswith("text/") or self.essence.endswith(("/xml", "+xml"))

    @property
    def is_unicode(self) -> bool:
        """Whether text of this type is UTF-8, as far as it says."""
        return self.charset in (None, "utf-8", "utf8", "us-ascii")


def parse(text: str) -> MediaType | None:
    """The media type, or None if the text is none."""
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def _parse(text: str) -> MediaType | None:
    text = text.strip(" \t")
    essence = _ESSENCE.match(text)
    if essence is None:
        return None
    charset = None
    position = essence.end()
    while position < len(text):
        parameter = _PARAMETER.match(text, position)
        if parameter is None:
            return None
        if (parameter[1] or "").lower() == "charset":
            charset = parameter[2].strip('"').lower()
        position = parameter.end()
    return MediaType(essence[0].lower(), charset)


_parse_cached = lru_cache(maxsize=512)(_parse)
