"""One name, one meaning: class names and constants are unique in the package."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import adaptkry

SOURCE = Path(adaptkry.__file__).parent
SHARED_CONSTANTS = {
    "EXAMPLES": "every command lists its examples under this name; `cli/app.py` reads them",
}


def public_classes(tree: ast.Module) -> Iterator[str]:
    """The names of all public classes, also of nested ones."""
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def constants(tree: ast.Module) -> Iterator[str]:
    """The UPPER_CASE names that a module assigns."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            yield from (name for name in names if name.isupper() and not name.startswith("_"))


def defined_twice(names_of) -> dict[str, list[str]]:
    """Name -> modules, for names that several modules define."""
    modules = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in dict.fromkeys(names_of(ast.parse(path.read_text(encoding="utf-8")))):
            modules[name].append(str(path.relative_to(SOURCE)))
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def test_class_names_are_unique():
    assert defined_twice(public_classes) == {}


def test_constants_are_unique_and_no_exception_is_out_of_date():
    assert sorted(defined_twice(constants)) == sorted(SHARED_CONSTANTS)
