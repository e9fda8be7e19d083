"""Input checks: each error says what was expected, what was given and what to do."""

import numbers
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common.lookup import shortened
from adaptkry.common.memory import check_memory

FLOATS = (torch.float32, torch.float64)
MAX_CLASSES = 10_000  # a higher label than this and the number of nodes is no class number
MAX_NODES = 10**7  # more nodes need a number of edges that is plausible
MAX_RATIO = 1000  # of nodes to edges
MAX_DEGREE = 10_000  # of a polynomial
MAX_TAUS = 1000
LARGEST_INTEGER = 2**63 - 1  # of torch and NumPy
LARGEST_FLOAT32 = torch.finfo(torch.float32).max


def tensor(values, what: str) -> Tensor:
    """Convert array-like `values` to a tensor, without a copy where possible."""
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise TypeError(f"{what} must be dense or SciPy sparse; got {values.layout}. Use .to_dense().")
        return values
    if np.ma.is_masked(values):  # as an array, it would have the numbers below its mask
        raise ValueError(f"{what} must have all values; got a masked array without some. Use .filled() first.")
    try:  # torch accepts neither reversed arrays (negative strides) nor, without a warning, read-only ones
        return torch.as_tensor(np.require(values, requirements=["C", "W", "E"]))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what} must be numbers in an array; got {type(values).__name__} ({error}). "
            f"Pass a NumPy array, a tensor or nested lists of equal length."
        ) from None


def without_gradients(values, what: str) -> None:
    """Refuse a tensor that requires gradients: they do not flow through a graph."""
    if isinstance(values, Tensor) and values.requires_grad:
        raise ValueError(
            f"{what} must not require gradients, which do not flow through a graph; got a tensor that does. Use "
            "detach()."
        )


def real(values: Tensor, what: str) -> Tensor:
    """Refuse complex numbers: dropping the imaginary part would lose information silently."""
    if values.is_complex():
        raise TypeError(
            f"{what} must be real; got {values.dtype}. Pass the real part, or real and imaginary side by side."
        )
    return values


def integers(values, what: str) -> Tensor:
    """Integers as int64. Floats are refused even if they are whole numbers: ids are not measurements."""
    found = real(tensor(values, what), what)
    if found.numel() == 0:
        return found.to(torch.int64)
    if found.is_floating_point() or found.dtype == torch.bool:
        raise TypeError(
            f"{what} must be integers; got {found.dtype} (first value {found.flatten()[0].item()}). "
            f"Convert them first if they are whole numbers: values.astype('int64')."
        )
    converted = found.to(torch.int64)
    if found.dtype == torch.uint64 and bool((converted < 0).any()):
        raise ValueError(f"{what} must be below 2^63; got uint64 above it. Number them from 0.")
    return converted


def finite(values: Tensor, what: str, row: str = "row") -> Tensor:
    """Refuse NaN and infinity; the error names the first row that has one."""
    is_finite = torch.isfinite(values)
    if not is_finite.all():
        number = ((~is_finite).nonzero()[0].tolist() or [0])[0]
        value = values[~is_finite][0].item()
        raise ValueError(f"{what} must be finite; {row} {number} has {value}. Fill or drop missing values first.")
    return values


def floats(values, what: str, row: str = "row") -> Tensor:
    """Real finite numbers as float32 or float64; integers and narrower floats become float32."""
    found = real(tensor(values, what), what)
    if found.dtype not in FLOATS:
        converted = found.to(torch.float32)
        # float32 represents integers up to 2^24 exactly; beyond that the conversion would change them.
        if not found.is_floating_point() and not torch.equal(converted.to(found.dtype), found):
            converted = found.to(torch.float64)
        found = converted
    return finite(found, what, row)


def features(values, nodes: int):
    """Node features [n, d], dense or as a SciPy CSR matrix, real and finite, with at least one column.

    Sparse features of SciPy and of torch stay sparse.
    """
    if isinstance(values, Tensor) and values.layout != torch.strided:
        values = _scipy_matrix(values)
    if sp.issparse(values):
        matrix: Any = sp.csr_array(values)
        stored = floats(matrix.data, "features", "stored entry").numpy()
        matrix = matrix.astype(stored.dtype, copy=False)
    else:
        matrix = floats(values, "features", "node")
    if matrix.ndim != 2 or matrix.shape[0] != nodes:
        raise ValueError(
            f"features must have shape [{nodes}, d], one row per node; got {list(matrix.shape)}. "
            f"Check the number of nodes, or transpose the features."
        )
    check_width(matrix)
    if matrix.shape[1] == 0:
        raise ValueError(
            f"features must have at least one column; got shape {list(matrix.shape)}. "
            f"Without features use torch.eye(n), node degrees or positional encodings."
        )
    return matrix


def _scipy_matrix(values: Tensor) -> sp.coo_array:
    """A sparse tensor of any layout as a SciPy matrix."""
    if values.ndim != 2 or values.dense_dim():
        raise ValueError(f"sparse features must have shape [n, d]; got {list(values.shape)}. Reshape them.")
    entries = values.detach().cpu().to_sparse_coo().coalesce()  # entries that are stored twice are added
    found = real(entries.values(), "features")
    found = found if found.dtype in FLOATS or not found.is_floating_point() else found.float()
    rows, columns = entries.indices().numpy()
    return sp.coo_array((found.numpy(), (rows, columns)), shape=tuple(values.shape))


def check_width(features) -> None:
    """Refuse sparse features with absurdly many columns: a model has weights for each of them."""
    columns = features.shape[1]
    if sp.issparse(features) and columns > max(MAX_NODES, MAX_RATIO * features.nnz):
        raise ValueError(
            f"features must have a plausible number of columns; got {columns} columns for {features.nnz} values. Check "
            f"the shape."
        )


def labels(values, nodes: int) -> Tensor:
    """Class of each node as int64 [n]; -1 means unknown."""
    found = tensor(values, "labels")
    if found.is_floating_point() and found.numel():
        raise TypeError(
            f"labels must be integers; got {found.dtype} (first value {found.flatten()[0].item()}). Convert them first "
            "if they are whole numbers: values.astype('int64'). For targets that are numbers use task='regression'."
        )
    found = integers(found, "labels")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (nodes,):
        raise ValueError(
            f"labels must have shape [{nodes}], one per node; got {list(found.shape)}. Use -1 for unknown labels; for "
            "several labels per node use task='multilabel'."
        )
    if len(found) and int(found.min()) < -1:
        node = int(found.argmin())
        raise ValueError(
            f"labels must be 0, 1, 2, ... or -1 for unknown; node {node} has {int(found[node])}. "
            f"Number the classes from 0."
        )
    check_highest_label(int(found.max()) if len(found) else -1, nodes)
    return found


def targets(values, nodes: int, task: str) -> Tensor:
    """Labels as 0 and 1 [n, c], or targets [n, t], as float64; a row of NaN (or, for labels, of -1) is unknown."""
    what = "labels" if task == "multilabel" else "targets"
    without_gradients(values, what)
    found = real(tensor(values, what), what).to(torch.float64, copy=True)
    found = found[:, None] if found.ndim == 1 and task == "regression" else found
    if found.ndim != 2 or found.shape[0] != nodes or not found.shape[1]:
        shape = f"[{nodes}, c], with a column per label" if task == "multilabel" else f"[{nodes}] or [{nodes}, t]"
        hint = "For one class per node use the task classification." if found.ndim == 1 else "Reshape them."
        raise ValueError(f"{what} of the task {task} must have shape {shape}; got {list(found.shape)}. {hint}")
    if task == "multilabel":
        found[(found == -1).all(1)] = torch.nan
    unknown = found.isnan()  # [n, t]
    is_right = torch.isfinite(found) if task == "regression" else (found == 0) | (found == 1)
    wrong = (~is_right & ~unknown.all(1, keepdim=True)).nonzero()
    if len(wrong):
        node, column = wrong[0].tolist()
        expected = "finite numbers" if task == "regression" else "0 and 1"
        raise ValueError(
            f"{what} of the task {task} must be {expected}; node {node} has {found[node, column].item():g} in column "
            f"{column}. Nodes without {what} have NaN in all columns."
        )
    return found


def check_highest_label(highest: int, nodes: int) -> None:
    """Refuse labels that cannot be class numbers, since arrays have a place for every class up to the highest."""
    if highest >= max(nodes, MAX_CLASSES):
        raise ValueError(
            f"labels must be class numbers 0, 1, 2, ... or -1 for unknown; got {highest} for {nodes} nodes. Number the "
            f"classes from 0: np.unique(labels, return_inverse=True)[1]."
        )


def classes(y: Tensor, names: Sequence[str] | None = None) -> Tensor:
    """Labels [n] with at least two classes among the known ones; with one class there is nothing to learn."""
    sizes = class_sizes(y)
    found = sizes.nonzero()[:, 0].tolist()
    if not found:
        raise ValueError(
            f"training needs at least 2 classes; none of {len(y)} nodes has a label. Label some nodes, or "
            "name the column of labels with --label-column (label_column in Python)."
        )
    if len(found) == 1:
        name = names[found[0]] if names else found[0]
        raise ValueError(
            f"training needs at least 2 classes; the {int(sizes.sum())} labelled nodes (of {len(y)}) are all of "
            f"class {name!r}. Label nodes of another class too."
        )
    return y


LABELS_PER_CHUNK = 2**20  # labels counted at once; torch.unique would copy and sort all of them


def class_sizes(y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Number of nodes of each class [classes], among a mask [n] or all nodes; unknown labels are not counted.

    >>> class_sizes(torch.tensor([2, 0, -1, 2]))
    tensor([1, 0, 2])
    """
    classes = max(0, int(y.max()) + 1) if len(y) else 0
    sizes = torch.zeros(classes, dtype=torch.long)
    for start in range(0, len(y), LABELS_PER_CHUNK):
        chunk = y[start : start + LABELS_PER_CHUNK]
        chunk = chunk if mask is None else chunk[mask[start : start + LABELS_PER_CHUNK]]
        sizes += torch.bincount(chunk[chunk >= 0], minlength=classes)
    return sizes


def edges(values, nodes: int | None) -> tuple[Tensor, int]:
    """Edges as int64 [2, m], a row of sources and a row of targets, and the number of nodes."""
    found = integers(values, "edges")
    if found.numel() == 0:
        found = found.reshape(2, 0)
    if found.ndim != 2 or found.shape[0] != 2:
        # [m, 2] is not transposed here: with two edges the two layouts cannot be distinguished.
        hint = "Transpose it: edges.T." if found.ndim == 2 and found.shape[1] == 2 else "Pass pairs of node ids."
        raise ValueError(f"edges must have shape [2, m], sources and targets; got {list(found.shape)}. {hint}")
    if found.numel() and int(found.min()) < 0:
        raise ValueError(f"edge ids must be 0 or more; got {int(found.min())}. Number the nodes from 0.")
    highest = int(found.max()) if found.numel() else -1
    if nodes is None:
        check_node_count(highest + 1, found.shape[1])
    nodes = highest + 1 if nodes is None else count(nodes, "the number of nodes")
    check_memory(32 * nodes, f"a graph of {nodes} nodes")  # row pointers, degrees and labels
    if nodes == 0:
        raise ValueError("a graph needs at least one node; got none. Pass edges, features or nodes=....")
    if highest >= nodes:
        raise ValueError(
            f"edge ids must be 0 .. {nodes - 1} for {nodes} nodes; got {highest}. "
            f"Number the nodes from 0, or pass features, labels or a number of nodes for all {highest + 1}."
        )
    return found, nodes


def check_node_count(nodes: int, edges: int) -> None:
    """Refuse an absurd number of nodes for a number of edges, which is a sign of ids that are not node numbers."""
    if nodes > max(MAX_NODES, MAX_RATIO * edges):
        raise ValueError(
            f"node ids must be 0 .. n - 1 for n nodes; got {nodes - 1} in a graph of {edges} edges. Number the nodes "
            f"from 0 without gaps: np.unique(edges, return_inverse=True)[1]."
        )


def weights(values, edges: int) -> Tensor:
    """Non-negative finite edge weights [m] as float64."""
    without_gradients(values, "weights")
    found = finite(real(tensor(values, "weights"), "weights").to(torch.float64), "weights", "edge")
    if found.shape != (edges,):
        raise ValueError(
            f"weights must have shape [{edges}], one per edge; got shape {list(found.shape)}. Reshape them."
        )
    if edges and float(found.max()) > LARGEST_FLOAT32:
        edge = int(found.argmax())
        raise ValueError(
            f"weights must be in the range of float32, at most 3.4e38; edge {edge} has {float(found[edge])}. Divide "
            f"them all by one number."
        )
    if edges and float(found.min()) < 0:
        edge = int(found.argmin())
        raise ValueError(
            f"weights must not be negative; edge {edge} has {float(found[edge])}. Degrees could become zero or "
            f"negative: take absolute values, or drop such edges."
        )
    return found


def require_integer(value, what: str) -> None:
    """Refuse what is no integer."""
    if isinstance(value, bool | np.bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{what} must be an integer; got {shortened(value)}.")


def count(value, what: str, at_most: int = LARGEST_INTEGER, *, at_least: int = 0) -> int:
    """An integer, by default 0 or more."""
    require_integer(value, what)
    whole = int(value)
    if whole < at_least:
        raise ValueError(f"{what} must be {at_least} or more; got {shortened(whole)}.")
    if whole > at_most:
        raise ValueError(f"{what} must be at most {at_most}; got {shortened(whole)}.")
    return whole


def positive_count(value, what: str, at_most: int = LARGEST_INTEGER) -> int:
    """A positive integer."""
    return count(value, what, at_most, at_least=1)


def number(value, what: str) -> float:
    """A finite real number; an integer stays one."""
    if isinstance(value, bool | np.bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{what} must be a number; got {shortened(value)}.")
    found: Any = value if isinstance(value, int | float) else float(value)
    if not abs(found) <= sys.float_info.max:
        raise ValueError(f"{what} must be finite; got {shortened(found)}.")
    return found


def number_of_float32(value, what: str) -> float:
    """A finite real number that is still finite as float32."""
    found = number(value, what)
    if abs(found) > LARGEST_FLOAT32:
        raise ValueError(f"{what} must be in the range of float32, at most 3.4e38; got {shortened(found)}.")
    return found


def function(value, what: str) -> Any:
    """A function, or another object that can be called."""
    if not callable(value):
        raise TypeError(f"{what} must be a function; got {shortened(value)}.")
    return value


def flag(value, what: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool):
        raise TypeError(f"{what} must be True or False; got {shortened(value)}.")
    return bool(value)


def device(value) -> torch.device:
    """A device of torch, from its name or from a tensor on it."""
    try:
        return value.device if isinstance(value, Tensor) else torch.device(value)
    except (RuntimeError, TypeError):
        raise ValueError(f"a device must be one of torch, such as cpu or cuda; got {shortened(value)}.") from None


def dense_matrix(rows: int, matrices: int = 1) -> None:
    """Refuse a dense matrix of float64, or several, that no memory of this machine could hold."""
    check_memory(8 * matrices * rows**2, f"a dense matrix of {rows} rows", remedy="Use products with the operator.")


def taus(value) -> tuple[float, ...]:
    """One tau or several, each finite and positive."""
    is_list = isinstance(value, Sequence | Tensor | np.ndarray) and not isinstance(value, str | bytes)
    values: list[Any] = list(value) if is_list and getattr(value, "ndim", 1) else [value]
    if not values:
        raise ValueError("tau must be a number or a list of numbers; got an empty list. Try 0.5.")
    if len(values) > MAX_TAUS:
        raise ValueError(f"tau must be at most {MAX_TAUS} numbers; got {len(values)}. Use fewer.")
    for tau in values:
        if isinstance(tau, str | bool | np.bool | complex) or not hasattr(tau, "__float__") or np.ndim(tau):
            raise TypeError(f"tau must be a positive number; got {tau!r}. Try 0.1 to 1.9.")
        if not 0 < tau <= LARGEST_FLOAT32:
            raise ValueError(
                f"tau must be positive and finite; got {float(tau)}. "
                f"Try 0.1 to 1.9: a small tau stays close to the node itself, 1 is the graph as it is."
            )
    return tuple(float(tau) for tau in values)


def node_numbers(numbers, nodes: int) -> None:
    """Refuse what is no tensor of node numbers 0 .. nodes - 1."""
    require_tensor(numbers, "the numbers of nodes")
    found = integers(numbers, "the numbers of nodes")
    if found.numel() and not 0 <= int(found.min()) <= int(found.max()) < nodes:
        raise ValueError(
            f"numbers of nodes must be 0 .. {nodes - 1}; got {int(found.min())} to {int(found.max())}. Correct them."
        )


def require_tensor(x, what: str) -> None:
    """Refuse what is no tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{what} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor(x) first.")


def signal(x, nodes: int, matrices: int | None = None) -> Tensor:
    """A signal that an operator can act on: a real float tensor [n] or [n, d].

    For a batched operator of r matrices (`matrices`) the shape is [n, d] or [r, n, d].
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"an operator acts on a torch tensor; got {type(x).__name__}. Use torch.as_tensor(x) first.")
    real(x, "the signal")
    if x.dtype not in FLOATS:
        raise TypeError(f"the signal must be float32 or float64; got {x.dtype}. Use x.float() or x.double().")
    if matrices is None:
        is_valid, expected = x.ndim in (1, 2) and x.shape[0] == nodes, f"[{nodes}] or [{nodes}, d]"
    else:
        is_valid = x.ndim in (2, 3) and x.shape[-2] == nodes and x.shape[:-2] in ((), (matrices,))
        expected = f"[{nodes}, d] or [{matrices}, {nodes}, d]"
    if not is_valid or x.numel() == 0:
        raise ValueError(f"the signal must have shape {expected}, d at least 1; got {list(x.shape)}. Reshape it.")
    return x
