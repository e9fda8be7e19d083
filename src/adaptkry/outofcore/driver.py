"""A whole basis onto disk: what is asked for is checked, planned, compared with what is there, and then made."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry import checks, datasets
from adaptkry.about import VERSION
from adaptkry.graph import Graph
from adaptkry.lookup import pick
from adaptkry.outofcore import folders, rows, sealing
from adaptkry.outofcore.arrays import PART, Stored, checksum, save
from adaptkry.outofcore.blocks import Job, finished, make_block
from adaptkry.outofcore.folders import BasisFolder, GraphFolder, block_name, blocks_of
from adaptkry.outofcore.plan import Plan, Size, make_plan, parse_bytes, show_bytes

DIRECTIONS = ("both", "out", "in")


def propagate(
    graph,
    out: Path | str,
    *,
    taus: Sequence[float] | float,
    degree: int,
    directions: Sequence[str] = ("both",),
    which: str = "all",
    dtype: str = "float32",
    memory: str | int = "4GiB",
    columns: int | None = None,
    features: Path | str | None = None,
    seed: int = 0,
    say: Callable[[str], object] = lambda _: None,
) -> BasisFolder:
    """Compute x, Px, ..., P^K x for every direction and tau and write them to a folder."""
    out = Path(out)
    source = graph_folder(graph, out, say)
    x, sums = chosen_features(source, features, out, say)
    chosen = rows.shuffled(rows.choose(source, which), seed)
    turned = [source for _ in directions]
    plan = make_plan(size_of(turned, x.shape[1], len(chosen)), parse_bytes(memory), columns)
    manifest = {
        "kind": "basis",
        "format": folders.FORMAT,
        "version": VERSION,
        "name": source.name,
        "metric": source.manifest["metric"],
        "classes": source.manifest["classes"],
        "graph": source.fingerprint,
        "nodes": source.nodes,
        "features": x.shape[1],
        "rows": len(chosen),
        "which": which if which in ("all", "labelled") else "listed",
        "seed": seed,
        "taus": list(checks.taus(taus)),
        "directions": list(directions),
        "degree": degree,
        "dtype": dtype,
        "blocks": blocks_of(x.shape[1], plan.width),
    }
    out.mkdir(parents=True, exist_ok=True)
    sums = {"rows.npy": save(out / "rows.npy", chosen)}
    sums["labels.npy"] = save(out / "labels.npy", rows.labels_of(source, chosen))
    job = Job(str(out), tuple(str(g.path) for g in turned), str(x.path), checks.taus(taus), degree, dtype, len(chosen), plan)
    folders.write_manifest(out, {**manifest, "sha256": sums})
    for start, stop in manifest["blocks"]:
        sums[f"{block_name(start, stop)}.npy"] = make_block(job, start, stop)
    folders.write_manifest(out, {**manifest, "sha256": sums})
    return BasisFolder.open(out)


def graph_folder(graph, out, say):
    if isinstance(graph, Graph):
        return sealing.write_graph(graph, out.with_name(out.name + ".work") / "graph")
    return GraphFolder.open(graph)


def chosen_features(source, features, out, say):
    return source.stored("features"), {}


def size_of(turned: Sequence[GraphFolder], features: int, stored: int) -> Size:
    """The largest of what the directions need."""
    widest = max(turned, key=lambda folder: folder.entries)
    largest = max(int(np.diff(folder.stored("indptr").read()).max()) for folder in turned)
    two = any(folder.has("weights") or not folder.is_symmetric for folder in turned)
    return Size(widest.nodes, widest.entries, largest, features, stored, widest.has("weights"), two)
