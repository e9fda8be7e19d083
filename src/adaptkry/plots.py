"""Arrays in, picture out. Matplotlib draws the still pictures; nothing else speaks to it."""

from pathlib import Path

import numpy as np

from adaptkry.storage import replacing

BLUE, GREY, ORANGE = "#1f6feb", "#8b949e", "#d1701f"


def run_picture(
    path: Path, *, title: str, grid, responses, density, curves: dict[str, np.ndarray], confusion: np.ndarray, names
) -> Path:
    """What a fit learned, in one PNG: filter over density of states, learning curves, confusion matrix.

    Args:
        path: where the picture goes.
        title: its heading.
        grid: eigenvalues [m] at which the filter was read.
        responses: learned responses, one column a member: [m, b]; None without a learned filter.
        density: a `Density` of the operator's spectrum, or None.
        curves: loss and validation score, [epochs, b] each.
        confusion: counts [c, c], true class down, predicted class across.
        names: class names.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    apart = ConstrainedLayoutEngine(wspace=0.06, w_pad=0.08)  # so that labels of neighbours do not touch
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.4), layout=apart)
    figure.suptitle(title)
    draw_filter(left, grid, responses, density)
    draw_curves(middle, curves)
    draw_confusion(right, confusion, names)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return path


def draw_filter(axes, grid, responses, density) -> None:
    """The learned response of every member, and behind it where the eigenvalues are."""
    axes.set_title("learned filter over the spectrum")
    axes.set_xlabel("frequency 1 - λ   (0 smooth, 2 rough)")
    shown = []
    if density is not None:
        behind = axes.twinx()
        width = np.diff(density.edges)
        bars = behind.bar(
            1 - density.centres, density.density, width, color=GREY, alpha=0.35, label="density of states"
        )
        behind.set_yticks([])  # in the legend it needs no axis: only its shape matters
        axes.set_zorder(behind.get_zorder() + 1)
        axes.patch.set_visible(False)
        shown.append(bars)
    if responses is None:
        axes.text(0.5, 0.5, "no learned filter", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
    else:
        axes.plot(1 - grid, responses, color=BLUE, alpha=0.3, linewidth=1)
        shown += axes.plot(1 - grid, responses.mean(1), color=BLUE, linewidth=2.5, label="g(λ), mean of trainings")
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_ylabel("response g(λ)", color=BLUE)
    axes.legend(handles=shown, loc="best")


def draw_curves(axes, curves: dict[str, np.ndarray]) -> None:
    """Validation score and training loss of every member by epoch."""
    axes.set_title("learning curves")
    axes.set_xlabel("epoch")
    axes.plot(100 * curves["validation"], color=BLUE, alpha=0.4, linewidth=1)
    axes.set_ylabel("validation score (%)", color=BLUE)
    other = axes.twinx()
    other.plot(curves["loss"], color=ORANGE, alpha=0.4, linewidth=1)
    other.set_ylabel("training loss", color=ORANGE)


def draw_confusion(axes, confusion: np.ndarray, names) -> None:
    """Share of each true class that was called what; counts written in."""
    axes.set_title("confusion on test nodes")
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if len(names) <= 15:
        short = [str(name)[:12] for name in names]
        turned = {"rotation": 45, "ha": "right"} if max(map(len, short)) > 3 else {}
        axes.set_xticks(range(len(names)), short, **turned)
        axes.set_yticks(range(len(names)), short)
        for (i, j), value in np.ndenumerate(confusion):
            dark = "white" if share[i, j] > 0.5 else "black"
            axes.text(j, i, f"{value:.0f}", ha="center", va="center", color=dark, fontsize=8)
