"""The table of methods: what each is made of, and the settings published for each graph. Data, no code.

Stages are explained in `stages/`, fields in `recipes.Recipe`. `docs/add-a-method.md` adds one as an example.
Settings come from each method's own public program (`SOURCES`), as far as it has any for these splits; where there are
none, `FALLBACK_GRID` lists what is tried, and validation nodes choose.
"""

from typing import Any

Settings = dict[str, Any]

# A two-layer perceptron, then the filter on its logits (GPR-GNN and those who followed it).
MLP_THEN_FILTER = (
    "input", "drop", "linear:hidden", "relu", "drop", "linear:classes", "drop:filter", "filter", "rows",
)  # fmt: skip
# One map before the filter, which has weights a channel, and one map after it.
FILTER_BETWEEN = (
    "input", "drop:input", "linear:hidden", "relu", "drop", "filter", "drop:input", "linear:classes", "rows",
)  # fmt: skip

# Most of them: row-normalised features, no self-loops in the data, an isolated node keeps nothing at tau = 1.
USUAL: Settings = dict(normalise=True, loops="drop", isolated=0.0, taus=(1.0,))
# Keep the epoch with the lowest validation loss; stop once the loss is above the mean of the last 200.
BY_LOSS: Settings = dict(select="loss", stop="mean")

METHODS: dict[str, Settings] = {
    "adaptkry": {},
    # terms as long as X: of the two forms the better one on validation in most cells of `reproduce orthogonality`
    "orthkry": dict(basis="orthonormal", basis_options=(("keep_norm", True),)),
    "mlp": dict(degree=0),
    # a fixed filter P^6, in SGC's manner
    "lowpass": dict(taus=(0.3,), degree=6, terms="last", start="ones", filter_lr=0.0),
    "gcn": USUAL | BY_LOSS | dict(
        taus=(0.5,), degree=1, terms="last",
        stages=("terms", "glorot:hidden", "bias", "relu", "drop", "glorot:classes", "hop", "bias", "rows"),
    ),
    "sgc": USUAL | dict(
        taus=(0.5,), degree=10, terms="last", combine="concat", stages=("combine", "linear:classes"),
        mlp_lr=0.2, mlp_decay=1e-5, mlp_dropout=0.0, patience=100,
    ),
    "sign": USUAL | dict(
        degree=3, stages=("each_hop:hidden", "relu", "drop", "linear:classes"), hidden=128, mlp_decay=0.0, patience=100,
    ),
    "chebnet": USUAL | BY_LOSS | dict(
        basis="chebyshev", basis_options=(("sign", -1.0),), degree=1, hidden=32,
        stages=("terms", "glorot:hidden", "bias", "relu", "drop", "hops", "glorot:classes", "bias", "rows"),
    ),
    "gprgnn": USUAL | BY_LOSS | dict(taus=(0.5,), stages=MLP_THEN_FILTER, start="ppr", alpha=0.1, filter_dropout=0.5),
    "bernnet": USUAL | BY_LOSS | dict(
        stages=MLP_THEN_FILTER, basis="bernstein", kind="positive", start="ones", filter_dropout=0.5,
    ),
    "jacobiconv": USUAL | dict(
        loops="keep", stages=("input", "drop:input", "linear:classes", "drop:filter", "filter", "rows"),
        basis="jacobi", basis_options=(("a", 1.0), ("b", 1.0)), damping=1.0, per_channel=True, start="ones",
        ties="later", patience=201, mlp_lr=0.05, input_dropout=0.5, filter_dropout=0.5,
    ),
    "evennet": USUAL | dict(
        stages=MLP_THEN_FILTER, kind="even", start="decay", alpha=0.1, filter_dropout=0.5,
        select="loss", least_epochs=201,
    ),
    "chebnetii": USUAL | BY_LOSS | dict(
        stages=MLP_THEN_FILTER, basis="chebyshev", kind="interpolated", start="ones", filter_dropout=0.5,
    ),
    "optbasis": USUAL | dict(
        stages=(*FILTER_BETWEEN[:5], "noise", *FILTER_BETWEEN[5:]), basis="optbasis", per_channel=True, start="spike",
        alpha=0, epochs=2000, patience=300, mlp_lr=0.01, input_dropout=0.5,
    ),
    "favardgnn": USUAL | dict(
        stages=FILTER_BETWEEN, basis="favard", per_channel=True, start="spike", alpha=0, epochs=2000, patience=300,
        mlp_lr=0.01, input_dropout=0.5,
    ),
    "appnp": USUAL | BY_LOSS | dict(taus=(0.5,), stages=MLP_THEN_FILTER, start="ppr", alpha=0.1, filter_lr=0.0),
    "gnn-lf": USUAL | dict(
        taus=(0.5,), degree=11, start="lf", alpha=0.1, filter_lr=0.0, mlp_decay=5e-3, basis_lr=0.01, patience=100,
        stages=("input", "drop", "map:hidden", "relu", "drop", "free_map:classes", "filter", "rows"),
    ),
    "gnn-hf": USUAL | dict(
        taus=(0.5,), degree=11, start="hf", alpha=0.1, filter_lr=0.0, mlp_decay=5e-3, basis_lr=0.01, patience=100,
        stages=("input", "drop", "map:hidden", "relu", "drop", "free_map:classes", "filter", "rows"),
    ),
    "arma": USUAL | dict(
        stages=("arma:hidden", "drop", "linear:classes", "rows"), input_dropout=0.25, degree=2, terms="first",
    ),
    "g2cn": USUAL | dict(
        basis="gaussian", basis_options=(("high", 5.0), ("low", 5.0)), degree=1, start="ones",
        stages=("combine", "linear:classes"), mlp_lr=0.05, filter_lr=0.05, mlp_dropout=0.0,
    ),
    "unifilter": USUAL | dict(basis="unifilter"),
    "asgc": dict(
        taus=(1.0,), basis="asgc", degree=19, start="ones", stages=("combine", "linear:classes"), optimiser="logistic",
        epochs=2000, mlp_decay=1.0,
    ),
}  # fmt: skip

ADAPTKRY = dict(normalise=True)
HALF = dict(mlp_dropout=0.5)

# What the methods' own programs use for these graphs.
PUBLISHED: dict[str, dict[str, Settings]] = {
    "adaptkry": {  # the paper's table gives taus, hidden and some rates; the rest is in its scripts
        "cora": ADAPTKRY | dict(
            taus=(0.5, 0.8, 1.1), hidden=256, layers=3, mlp_lr=0.1, filter_lr=5e-4, mlp_decay=1e-3,
            filter_dropout=0.2, mlp_dropout=0.3),
        "citeseer": ADAPTKRY | dict(
            taus=(0.1,), hidden=128, layers=4, mlp_lr=0.01, filter_lr=0.05, mlp_decay=5e-5, filter_decay=1e-4,
            filter_dropout=0.9, mlp_dropout=0.8),
        "pubmed": ADAPTKRY | dict(
            taus=(0.5,), hidden=128, layers=4, mlp_lr=0.1, filter_lr=0.05, mlp_decay=5e-4, filter_decay=1e-4,
            filter_dropout=0.4, mlp_dropout=0.0),
        "actor": ADAPTKRY | dict(
            taus=(0.6, 1.7, 1.8), hidden=256, layers=4, mlp_lr=0.1, filter_lr=0.01, mlp_decay=5e-4, mlp_dropout=0.4),
        "chameleon": ADAPTKRY | dict(
            taus=(0.5, 0.8), hidden=256, layers=4, mlp_lr=0.015, filter_lr=0.05, mlp_decay=1e-4, filter_decay=1e-4,
            mlp_dropout=0.7, patience=400),
        "squirrel": ADAPTKRY | dict(
            taus=(0.8,), hidden=256, layers=2, mlp_lr=0.01, filter_lr=0.1, mlp_decay=1e-4, filter_decay=5e-4,
            mlp_dropout=0.6, batch_norm=True),
        "penn94": dict(
            taus=(0.1, 0.6, 1.1), degree=4, loops="add", hidden=256, layers=3, mlp_lr=1e-3, filter_lr=0.05,
            mlp_decay=0.0, filter_decay=5e-5, mlp_dropout=0.7, optimiser="adamw"),
        "genius": dict(
            taus=(0.9,), degree=8, combine="concat", hidden=128, layers=4, mlp_lr=1e-3, mlp_decay=5e-5,
            mlp_dropout=0.0, batch_norm=True, optimiser="adamw", loss="binary"),
        "ogbn-arxiv": dict(
            taus=(0.6, 1.2), combine="concat", hidden=256, layers=2, mlp_lr=0.05, mlp_decay=0.0, mlp_dropout=0.7,
            patience=250),
    },
    "bernnet": {
        "cora": dict(filter_dropout=0.0),
        "citeseer": dict(filter_dropout=0.5),
        "pubmed": dict(mlp_decay=0.0, filter_dropout=0.0),
        "actor": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.9),
        "chameleon": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.7),
        "squirrel": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.6),
    },
    "chebnetii": {
        "cora": dict(filter_decay=5e-4, filter_dropout=0.0),
        "citeseer": dict(filter_dropout=0.5),
        "pubmed": dict(mlp_decay=0.0, filter_dropout=0.0),
        "actor": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.9),
        "chameleon": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.6),
        "squirrel": dict(mlp_lr=0.05, mlp_decay=0.0, filter_decay=5e-4, filter_dropout=0.5),
    },
    "evennet": {
        "cora": HALF,
        "citeseer": dict(mlp_lr=0.05, mlp_dropout=0.1, filter_dropout=0.3),
        "pubmed": dict(mlp_lr=0.05, mlp_dropout=0.1, filter_dropout=0.3),
        "actor": dict(mlp_lr=0.05, mlp_dropout=0.3, filter_dropout=0.7),
        "chameleon": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.7),
        "squirrel": dict(mlp_lr=0.05, mlp_decay=0.0, filter_dropout=0.7),
    },
    "gprgnn": {  # the citation graphs have settings for sparse splits only: see FALLBACK_GRID
        "actor": dict(mlp_decay=0.0, alpha=0.9),
        "chameleon": dict(mlp_lr=0.05, filter_lr=0.05, mlp_decay=0.0, alpha=1.0, filter_dropout=0.7),
        "squirrel": dict(mlp_lr=0.05, filter_lr=0.05, mlp_decay=0.0, alpha=0.0, filter_dropout=0.7),
    },
    "jacobiconv": {
        name: dict(
            basis_options=(("a", a), ("b", b), ("published", True)), damping=alpha, input_dropout=first,
            filter_dropout=second, mlp_lr=lr1, basis_lr=lr2, filter_lr=lr3, mlp_decay=wd1, basis_decay=wd2,
            filter_decay=wd3)
        for name, a, b, alpha, first, second, lr1, lr2, lr3, wd1, wd2, wd3 in (
            ("cora", 2.0, -0.25, 0.5, 0.5, 0.7, 0.05, 0.01, 0.01, 1e-3, 1e-4, 5e-5),
            ("citeseer", -0.5, -0.5, 0.5, 0.9, 0.8, 0.05, 0.001, 0.01, 5e-5, 0.0, 1e-3),
            ("pubmed", 1.5, 0.25, 0.5, 0.0, 0.5, 0.05, 0.05, 0.05, 5e-4, 5e-4, 0.0),
            ("actor", -1.0, 0.5, 1.0, 0.9, 0.7, 0.05, 0.05, 0.01, 1e-3, 5e-4, 1e-3),
            ("chameleon", 0.0, 0.0, 2.0, 0.6, 0.5, 0.05, 0.01, 0.05, 0.0, 1e-4, 5e-4),
            ("squirrel", 0.5, 0.25, 2.0, 0.4, 0.1, 0.01, 0.01, 0.05, 5e-5, 0.0, 0.0),
        )
    },
    "optbasis": {
        name: dict(
            degree=degree, mlp_lr=lr1, mlp_decay=wd1, filter_lr=lr2, filter_decay=wd2, input_dropout=p1, mlp_dropout=p2,
            normalise=name not in ("citeseer", "pubmed"))
        for name, degree, lr1, wd1, lr2, wd2, p1, p2 in (
            ("citeseer", 2, 0.04, 1e-3, 0.005, 1e-3, 0.5, 0.5),
            ("pubmed", 12, 0.04, 1e-5, 0.005, 1e-3, 0.0, 0.0),
            ("actor", 4, 0.005, 1e-3, 0.03, 1e-3, 0.6, 0.5),
            ("chameleon", 16, 0.01, 1e-4, 0.01, 1e-3, 0.2, 0.6),
            ("squirrel", 20, 0.001, 1e-7, 0.03, 1e-3, 0.0, 0.5),
        )
    },
    "favardgnn": {
        name: dict(
            degree=degree, mlp_lr=lr1, filter_lr=lr2, basis_lr=lr3, mlp_decay=wd1, filter_decay=wd2, basis_decay=wd3,
            input_dropout=p1, mlp_dropout=p2, normalise=name not in ("citeseer", "pubmed"))
        for name, degree, lr1, lr2, lr3, wd1, wd2, wd3, p1, p2 in (
            ("citeseer", 8, 0.001, 0.001, 0.001, 1e-6, 1e-6, 1e-8, 0.7, 0.9),
            ("pubmed", 8, 0.05, 0.005, 0.005, 1e-3, 1e-6, 1e-6, 0.0, 0.5),
            ("actor", 16, 0.05, 0.05, 0.05, 1e-5, 1e-3, 1e-5, 0.7, 0.7),
            ("chameleon", 20, 0.04, 0.04, 0.02, 1e-6, 1e-5, 1e-7, 0.5, 0.5),
            ("squirrel", 20, 0.05, 0.04, 5e-4, 1e-5, 1e-7, 1e-6, 0.5, 0.5),
        )
    },
    "g2cn": {
        "chameleon": dict(basis_options=(("high", 5.961), ("low", 9.305)), filter_lr=0.05 * 3.941, mlp_decay=2.6e-7),
        "squirrel": dict(basis_options=(("high", 5.345), ("low", 9.852)), filter_lr=0.05 * 8.680, mlp_decay=3.1e-10),
    },
}  # fmt: skip
# OrthKry has no published settings: AdaptKry's, but no entries of terms dropped. Krylov terms are alike, so that their
# sum survives a dropout of 0.9; orthonormal ones are not (on validation: `reproduce orthogonality`).
PUBLISHED["orthkry"] = {graph: own | dict(filter_dropout=0.0) for graph, own in PUBLISHED["adaptkry"].items()}

# Public programs, at the commit that was read, that the methods and their settings were taken from.
BERNNET = "ivam-he/BernNet 79ef2ba"
FAROPTBASIS = "yuziGuo/FarOptBasis 1e3fdac"
SOURCES: dict[str, str] = {
    "adaptkry": "kkhuang81/AdaptKry fc71279, and the paper's own table",
    "orthkry": "the paper; no program was published",
    "mlp": "AdaptKry's with no hop",
    "lowpass": "ours: a fixed filter in SGC's manner",
    "gcn": f"{BERNNET}; ranges of jianhao2016/GPRGNN 4e0a7ee",
    "sgc": "Tiiiger/SGC 2c7a272",
    "sign": "PyG 1.6.3, examples/sign",
    "chebnet": f"{BERNNET}; ranges of jianhao2016/GPRGNN 4e0a7ee",
    "gprgnn": "jianhao2016/GPRGNN 4e0a7ee",
    "bernnet": BERNNET,
    "jacobiconv": "GraphPKU/JacobiConv 5e9e671, with its sign",
    "evennet": "Leirunlin/EvenNet 8b0477c",
    "chebnetii": "ivam-he/ChebNetII ded6c18",
    "optbasis": FAROPTBASIS,
    "favardgnn": FAROPTBASIS,
    "appnp": f"{BERNNET}; ranges of jianhao2016/GPRGNN 4e0a7ee",
    "gnn-lf": "zhumeiqiBUPT/GNN-LF-HF cbc723a",
    "gnn-hf": "zhumeiqiBUPT/GNN-LF-HF cbc723a",
    "arma": f"{FAROPTBASIS}; PyG's example",
    "g2cn": "homles11/G2CN beb75eb; its settings were chosen on test nodes",
    "unifilter": "the paper of UniFilter; the basis alone",
    "asgc": "schariya/adaptive-simple-convolution 8e065b1",
}

# Where nothing was published for these splits: what is tried, the choice being made on validation nodes.
RATES: dict[str, tuple] = dict(mlp_lr=(0.002, 0.01, 0.05), mlp_decay=(0.0, 5e-4))
FEW: dict[str, tuple] = dict(mlp_lr=(0.01, 0.05), mlp_dropout=(0.0, 0.5))  # with few features, dropout loses too many
FALLBACK_GRID: dict[str, dict[str, tuple]] = {
    "adaptkry": FEW | dict(taus=((0.5,), (1.0,))),
    "orthkry": FEW | dict(taus=((0.5,), (1.0,))),
    "mlp": FEW | dict(mlp_decay=(0.0, 5e-4)),
    "gcn": RATES,
    "chebnet": RATES,
    "sgc": dict(degree=(2, 10), mlp_lr=(0.2,), mlp_decay=(0.0, 1e-6, 1e-5, 1e-4)),
    "sign": dict(degree=(3,), mlp_lr=(0.01, 0.05), mlp_decay=(0.0, 1e-4, 1e-3), mlp_dropout=(0.5, 0.8)),
    "gprgnn": dict(mlp_lr=(0.01, 0.05), mlp_decay=(0.0, 5e-4), alpha=(0.1, 0.2, 0.5, 0.9)),
    "appnp": RATES | dict(alpha=(0.1, 0.2, 0.5, 0.9)),
    "optbasis": dict(
        normalise=(False,), degree=(2,), mlp_lr=(0.005, 0.04), filter_lr=(0.005,), mlp_decay=(1e-4, 1e-3),
        filter_decay=(1e-3,), input_dropout=(0.2, 0.5)),
    "favardgnn": dict(
        degree=(8,), mlp_lr=(0.005, 0.05), filter_lr=(0.005, 0.05), mlp_decay=(1e-5, 1e-3), input_dropout=(0.5, 0.8)),
    "bernnet": RATES,
    "chebnetii": RATES,
    "evennet": RATES,
    "jacobiconv": dict(mlp_lr=(0.01, 0.05), mlp_decay=(0.0, 5e-4), input_dropout=(0.2, 0.5, 0.8)),
    "unifilter": dict(
        basis_options=tuple((("homophily", h),) for h in (0.0, 0.5, 1.0)), mlp_lr=(0.01, 0.05), mlp_decay=(0.0, 5e-4)),
}  # fmt: skip
