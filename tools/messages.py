"""The page docs/messages.md: every error message for users on one page, collected from the code by `make docs`.

These are the texts of all `UserError`s (and of `HistoryProblem`s and `ApiError`s), by module. A field of an f-string is
shown as {name}. A message that only passes on the text of another error is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
ROOTS = {
    "penstock.runtime.errors.UserError",
    "penstock.history.schema.columns.HistoryProblem",
    "penstock.apiserver.errors.ApiError",
}
API_ERROR = "penstock.apiserver.errors.ApiError"
API_MESSAGE = {API_ERROR: 2, "penstock.apiserver.errors.bad_request": 0}
"""Which argument has the text; of the other errors, the first is the problem and the second what to do."""
LONGEST_FIELD = 30

HEAD = """# Error messages

Made from the code by `make docs`; do not edit.

Every error message of the commands, the start-up, the console and the Kubernetes API, by module. `{name}` stands for a
value. The second column is the advice that is printed below the message.
"""


@dataclass
class Module:
    """A module of penstock: its syntax tree, and what its top-level names are."""

    name: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    """By local name, the full name."""
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for statement in self.tree.body:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                self.imports[statement.name] = f"{self.name}.{statement.name}"
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self.constants[statement.targets[0].id] = statement.value

    def full_name(self, node: ast.expr) -> str:
        """The full name of what a name or `module.name` refers to."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return f"{self.imports.get(node.value.id, '')}.{node.attr}"
        return self.imports.get(node.id, "") if isinstance(node, ast.Name) else ""


def page() -> str:
    """The page as Markdown."""
    modules = {module.name: module for module in _modules()}
    errors = _error_classes(modules)
    sections = []
    for name, module in sorted(modules.items()):
        rows = list(dict.fromkeys(_rows(module, modules, errors)))
        if rows:
            table = "".join(f"| {_cell(message)} | {_cell(advice)} |\n" for message, advice in rows)
            sections.append(f"\n## {name.removeprefix('penstock.')}\n\n| message | advice |\n|---|---|\n{table}")
    return HEAD + "".join(sections)


def _modules() -> Iterator[Module]:
    for path in SOURCES.rglob("*.py"):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, ast.parse(path.read_text(encoding="utf-8")))


def _error_classes(modules: Mapping[str, Module]) -> set[str]:
    """The full names of the error classes, subclasses included."""
    found = set(ROOTS)
    bases = {
        f"{module.name}.{node.name}": {module.full_name(base) for base in node.bases}
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def _rows(module: Module, modules: Mapping[str, Module], errors: set[str]) -> Iterator[tuple[str, str]]:
    """Message and advice of every error that the module constructs."""
    for scope, call in _calls(module.tree, module.tree):
        name = module.full_name(call.func)
        texts = _Texts(module, modules, scope)
        if name in API_MESSAGE:
            arguments = call.args[API_MESSAGE[name] :]
            code = ast.unparse(call.args[0]) if name == API_ERROR else "400"
            if arguments and (message := texts.of(arguments[0])):
                yield f"{message} ({code})", ""
        elif name in errors:
            given = dict(zip(("what", "remedy"), call.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            message, advice = (texts.of(given[key]) if key in given else "" for key in ("what", "remedy"))
            if message:
                yield message, advice


def _calls(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Every call, with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield scope, child
        yield from _calls(child, child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope)


class _Texts:
    """Expressions as text, with the variables of a function and the constants of the modules resolved."""

    def __init__(self, module: Module, modules: Mapping[str, Module], scope: ast.AST) -> None:
        self._module, self._modules = module, modules
        self._assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.targets[0].id, []).append(node.value)

    def of(self, node: ast.expr, depth: int = 0) -> str:  # noqa: PLR0911 — one for each form of expression
        """The text of an expression; empty where it only passes on that of another error."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self._part(part, depth) for part in parts)
            case ast.IfExp(body=body, orelse=other):
                return " / ".join(filter(None, (self.of(body, depth), self.of(other, depth))))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.of(left, depth) + (self.of(right, depth) or _name(right))
            case ast.BoolOp(values=values):
                return " / ".join(filter(None, (self.of(value, depth) for value in values)))
            case ast.Call(func=ast.Attribute(value=text, attr="strip" | "format")):
                return self.of(text, depth)
            case ast.Name(id=name) if depth < 3:
                return self._of_name(name, depth + 1)
            case _:
                return ""

    def _of_name(self, name: str, depth: int) -> str:
        if name in self._assigned:
            return " / ".join(filter(None, (self.of(value, depth) for value in self._assigned[name])))
        if name in self._module.constants:
            return self.of(self._module.constants[name], depth)
        module, _, constant = self._module.imports.get(name, "").rpartition(".")
        if module in self._modules and constant in self._modules[module].constants:
            return self.of(self._modules[module].constants[constant], depth)
        return ""

    def _part(self, part: ast.expr, depth: int) -> str:
        if not isinstance(part, ast.FormattedValue):
            return self.of(part, depth)
        if isinstance(part.value, ast.Name) and part.value.id.isupper():
            return self._of_name(part.value.id, depth + 1) or "{" + part.value.id + "}"
        return "{" + _name(part.value) + "}"


def _name(node: ast.expr) -> str:  # noqa: PLR0911 — one for each form of expression
    """A short name for a value: the last attribute, the called function, or the expression."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call(func=ast.Attribute(attr="join"), args=[values]):
            return _name(values.elt) + ", …" if isinstance(values, ast.GeneratorExp) else _name(values) + ", …"
        case ast.Call(func=function):
            return _name(function).strip("_")
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.IfExp(body=body):
            return ast.literal_eval(body) if isinstance(body, ast.Constant) else _name(body)
        case ast.JoinedStr():
            return "…"
        case _:
            text = ast.unparse(node)
            return text if len(text) <= LONGEST_FIELD else "…"


def _cell(text: str) -> str:
    """Text for a table of Markdown."""
    for character in "\\`*_{}[]<>|$":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


if __name__ == "__main__":
    print(page(), end="")
