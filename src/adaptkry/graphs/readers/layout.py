"""The layout of tables: what their columns are, and how they become features. A run keeps it for its predictions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

COLUMN_KINDS = ("number", "boolean", "categories")
MISSING = ("mean", "flag")  # how missing values are replaced


@dataclass(frozen=True)
class Column:
    """A column of the nodes table, and the feature columns that it becomes: one, or one per category."""

    name: str
    kind: str = "number"
    categories: tuple[str, ...] = ()
    means: tuple[float, ...] = ()  # of its feature columns over the nodes of the training graph; they fill gaps
    flag: bool = False  # a further feature column is 1 where the value is missing

    @property
    def feature_names(self) -> list[str]:
        """Names of its feature columns."""
        names = [f"{self.name}={category}" for category in self.categories] or [self.name]
        return [*names, *([f"{self.name} is missing"] if self.flag else [])]


@dataclass(frozen=True)
class Layout:
    """Names and meaning of the columns of the tables of a graph."""

    source: str = "source"
    target: str = "target"
    weight_column: str | None = None
    id_column: str = "id"
    label_column: str | None = None
    columns: tuple[Column, ...] = ()  # of features, in order
    missing: str | None = None  # "mean", "flag", or None: missing values are refused
    directed: bool = False
    classes: tuple[str, ...] = ()  # names of the classes in order

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain data, without values that are the default."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = vars(Column(""))
        columns = [{k: v for k, v in asdict(column).items() if v != defaults[k]} for column in self.columns]
        return found | {"columns": columns, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Layout":
        """The layout that `to_dict` has written; anything else is refused."""
        try:
            columns = tuple(
                Column(**column | {name: tuple(column[name]) for name in ("categories", "means") if name in column})
                for column in data["columns"]
            )
            layout = cls(**{**data, "columns": columns, "classes": tuple(data["classes"])})
        except (TypeError, KeyError, AttributeError):
            raise ValueError("the layout of tables must have the parts that adaptkry writes.") from None
        names = [layout.source, layout.target, layout.id_column, *layout.classes, *(c.name for c in columns)]
        names += [name for name in (layout.weight_column, layout.label_column) if name is not None]
        is_right = all(isinstance(name, str) for name in names) and isinstance(layout.directed, bool)
        if not is_right or layout.missing not in (None, *MISSING) or not all(map(_is_right, columns)):
            raise ValueError("the layout of tables must have names and numbers in their places.")
        return layout


def _is_right(column: Column) -> bool:
    """Whether the parts of a column fit together."""
    width = len(column.categories) if column.kind == "categories" else 1
    numbers = all(isinstance(mean, float | int) and not isinstance(mean, bool) for mean in column.means)
    texts = all(isinstance(category, str) for category in column.categories)
    has_categories = bool(column.categories) == (column.kind == "categories")
    right_types = numbers and texts and isinstance(column.flag, bool)
    return column.kind in COLUMN_KINDS and right_types and has_categories and len(column.means) == width
