"""From the text of a CESQL expression to its syntax tree.

The grammar is in `grammar.lark`; here the tree is built while lark parses, and lark's errors are put in the words of
the language. A sign before digits belongs to the literal, because -2147483648 is an integer and 2147483648 is not.
Operators of one precedence are taken from left to right, AND, OR and XOR among them, as section 3.6 says.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

from penstock.filters.cesql import syntax
from penstock.filters.cesql.values import integer

MAX_DEPTH = 40
"""Levels of nesting that an expression may have: far above what people write, far below what ends a stack."""

REMEMBERED = 4096
"""Expressions whose trees are kept: the router parses those of all routes whenever one of them changes."""

_WORDS = {"NAME": "an attribute", "FUNCTION": "a function", "INTEGER": "an integer", "COMPARISON": "a comparison"}
_PAIR = re.compile(r"\\.|''|\"\"", re.DOTALL)
_WORD = re.compile(r"\w+")
_STARTS_OPERAND = frozenset({"NAME", "FUNCTION", "LPAR"})
_CONTINUES = frozenset({"AND", "OR", "XOR"})


class ParseError(ValueError):
    """The text is not a CESQL expression. The message says where and why."""


@lru_cache(maxsize=REMEMBERED)
def parse(text: str) -> syntax.Expression:
    """The syntax tree of the expression; `ParseError` where it is none."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ParseError("the expression holds half of a surrogate pair, which is not a character")
    try:
        expression: syntax.Expression = _lark().parse(text)  # type: ignore[assignment]  # the transformer's result
    except VisitError as error:
        raise ParseError(str(error.orig_exc)) from error
    except ParseError:
        raise
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        word = _WORD.match(text, position)
        raise ParseError(_unexpected(word[0] if word else text[position], text, position)) from error
    except (UnexpectedToken, UnexpectedEOF) as error:
        raise ParseError(_explain(error, text)) from error
    if (levels := syntax.depth(expression)) > MAX_DEPTH:
        raise ParseError(f"the expression is nested {levels} levels deep, at most {MAX_DEPTH} are allowed")
    return expression


def _explain(error: UnexpectedToken | UnexpectedEOF, text: str) -> str:
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        problem = "the expression ends too early" if text.strip() else "the expression is empty"
    else:
        problem = _unexpected(str(token), text, token.start_pos)
    expected = _expected(frozenset(getattr(error, "accepts", None) or error.expected))
    return f"{problem}; expected {expected}" if expected else problem


def _unexpected(what: str, text: str, position: int) -> str:
    if what in "'\"":
        return f"the string that starts at column {position + 1} is not closed"
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return f"unexpected {what!r} at " + (f"line {line}, " if line > 1 else "") + f"column {column}"


def _expected(terminals: frozenset[str]) -> str:
    if terminals >= _STARTS_OPERAND:
        return "a value, an attribute, a function or '('"
    if terminals >= _CONTINUES:
        return "an operator" + (" or ')'" if "RPAR" in terminals else " or the end")
    if terminals == {"SINGLE_QUOTED", "DOUBLE_QUOTED"}:
        return "a string in quotes"
    return " or ".join(sorted(_WORDS.get(each, {"LPAR": "'('", "RPAR": "')'"}.get(each, each)) for each in terminals))


@cache
def _lark() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    # The basic lexer, unlike the contextual one, keeps keywords reserved wherever they stand.
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Build(), maybe_placeholders=False)


def _literal(digits: str) -> syntax.Literal:
    value = integer(digits)
    if value is None:
        raise ParseError(f"{digits[:20]} is not a 32-bit integer")
    return syntax.Literal(value)


def _is_chain(expression: syntax.Expression, operator: str) -> bool:
    return isinstance(expression, syntax.Combine) and expression.operator == operator


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """Builds a node for each alias of the grammar."""

    def combine(self, left: Any, operator: Token, right: Any) -> syntax.Combine:
        kind: Any = operator.type
        operands = [each.operands if _is_chain(each, kind) else (each,) for each in (left, right)]
        return syntax.Combine(kind, operands[0] + operands[1])

    def compare(self, left: Any, operator: Token, right: Any) -> syntax.Compare:
        symbol = "!=" if operator == "<>" else str(operator)
        return syntax.Compare(symbol, left, right)  # type: ignore[arg-type]  # the grammar admits no other

    def calculate(self, left: Any, operator: Token, right: Any) -> syntax.Calculate:
        return syntax.Calculate(str(operator), left, right)  # type: ignore[arg-type]  # the grammar admits no other

    def like(self, operand: Any, _like: Token, pattern: syntax.Literal) -> syntax.Like:
        return syntax.Like(operand, str(pattern.value))

    def not_like(self, operand: Any, _not: Token, _like: Token, pattern: syntax.Literal) -> syntax.Like:
        return syntax.Like(operand, str(pattern.value), negated=True)

    def is_in(self, operand: Any, _in: Token, elements: tuple[Any, ...]) -> syntax.In:
        return syntax.In(operand, elements)

    def is_not_in(self, operand: Any, _not: Token, _in: Token, elements: tuple[Any, ...]) -> syntax.In:
        return syntax.In(operand, elements, negated=True)

    def set(self, *elements: Any) -> tuple[Any, ...]:
        return elements

    def negation(self, _not: Token, operand: Any) -> syntax.Negation:
        return syntax.Negation(operand)

    def minus(self, _minus: Token, operand: Any) -> syntax.Minus:
        return syntax.Minus(operand)

    def negative(self, _minus: Token, digits: Token) -> syntax.Literal:
        return _literal(f"-{digits}")

    def positive(self, _plus: Token, digits: Token) -> syntax.Literal:
        return _literal(str(digits))

    def integer(self, digits: Token) -> syntax.Literal:
        return _literal(str(digits))

    def true(self, _true: Token) -> syntax.Literal:
        return syntax.Literal(True)

    def false(self, _false: Token) -> syntax.Literal:
        return syntax.Literal(False)

    def string(self, quoted: Token) -> syntax.Literal:
        # Only the quote is unescaped: any other backslash is a character, or belongs to a LIKE pattern.
        quote = quoted[0]
        text = _PAIR.sub(lambda pair: quote if pair[0][1] == quote else pair[0], quoted[1:-1])
        return syntax.Literal(text)

    def attribute(self, name: Token) -> syntax.Attribute:
        return syntax.Attribute(name.lower())

    def exists(self, _exists: Token, name: Token) -> syntax.Exists:
        return syntax.Exists(name.lower())

    def call(self, function: Token, *arguments: Any) -> syntax.Call:
        return syntax.Call(function.upper(), arguments)
