"""Who may import whom.

LAYERS is the one place that says it. A file imports from lower layers, or from files above it in
its own layer; a package's `__init__` stands below the files of its package. Imports inside
functions count too, so a cycle cannot hide in one; only the libraries in LAZY may be imported
there, because `import mgefn` must not wait for them. Imports under `if TYPE_CHECKING:` are free:
they do not run.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mgefn"

# layer digit -> modules or packages (without the leading "mgefn."), each importing from those
# before it. A package stands for all files in it that no longer entry names; those import from each
# other as they like, short of a cycle. "" is mgefn/__init__.py. A name may wait for its file.
LAYERS: dict[int, tuple[str, ...]] = {
    0: (
        "suggestions",
        "forks",
        "errors",
        "config",
        "dtypes",
        "tree.exact",
        "tree.keys",
        "tree.registry",
        "tree.nodes",
        "tree.flattening",
        "tree.paths",
        "tree.partial",
        "tree.editing",
        "tree.records",
        "tree.comparing",
        "tree",
    ),
    1: (
        "core.background",
        "core.source",
        "core.collector",
        "core.avals",
        "core.cuda",
        "core.transfers",
        "core.devices",
        "core.interpreter",
        "core.primitive",
        "core.jaxpr",
        "core.array_methods",
        "core.tracer",
        "core.array",
        "recipes",
        "core.device_array",
        "core.backends",
        "core",
    ),
    2: (
        "ops.shaping",
        "ops.elementwise.common",
        "ops.elementwise.scale",
        "ops.elementwise.choice",
        "ops.elementwise.complex_parts",
        "ops.elementwise.rounding",
        "ops.elementwise.arithmetic",
        "ops.elementwise.exponential",
        "ops.elementwise.trigonometric",
        "ops.elementwise.logic",
        "ops.elementwise.conversion",
        "ops.elementwise",
        "ops.reductions.common",
        "ops.reductions.logical",
        "ops.reductions.sums",
        "ops.reductions.extremes",
        "ops.reductions.statistics",
        "ops.reductions.without_nan",
        "ops.reductions.log_sums",
        "ops.reductions",
        "ops.cumulative",
        "ops.contractions.dot_general",
        "ops.contractions.products",
        "ops.contractions.einsum",
        "ops.contractions",
        "ops.windows",
        "ops.convolution",
        "ops.indexing.gather",
        "ops.indexing.slices",
        "ops.indexing.numpy_index",
        "ops.indexing.updates",
        "ops.indexing.select.common",
        "ops.indexing.select.taking",
        "ops.indexing.select.rearranging",
        "ops.indexing.select.putting",
        "ops.indexing.select.flat_indices",
        "ops.indexing.select.choosing",
        "ops.indexing.select.triangles",
        "ops.indexing.select.grids",
        "ops.indexing.select",
        "ops.indexing",
        "ops.sorting",
        "ops.fft",
        "ops.special",
        "ops.random_bits",
        "ops.collectives",
        "ops.segments",
        "ops",
    ),
    3: (
        "interpreters.on_device",
        "interpreters.evaluate",
        "interpreters.staging",
        "interpreters.jvp",
        "interpreters.batching",
        "interpreters.transposition",
        "interpreters.linearize",
        "interpreters.jit",
        "interpreters",
    ),
    4: (
        "control.custom_rules.closures",
        "control.custom_rules.calls",
        "control.custom_rules.batching",
        "control.custom_rules.staging",
        "control.custom_rules.jvp",
        "control.custom_rules.vjp",
        "control.custom_rules.conversion",
        "control.custom_rules",
        "control.programs",
        "control.checkpoint",
        "control.callbacks",
        "control.branching",
        "control.scan",
        "control.loops",
        "control.implicit",
        "control.nonfinite",
        "control.linear_call",
        "control.custom_batching",
        "control.checks",
        "control.reduce",
        "control.reduce_window",
        "control.linalg.matrices",
        "control.linalg.spread",
        "control.linalg.triangular",
        "control.linalg.svd",
        "control.linalg.lu",
        "control.linalg.qr",
        "control.linalg.eigen",
        "control.linalg.tridiagonal",
        "control.linalg",
        "control",
    ),
    5: (
        "compiler.passes.inline",
        "compiler.passes.dce",
        "compiler.passes.fold",
        "compiler.passes.simplify",
        "compiler.passes.split",
        "compiler.passes.cse",
        "compiler.passes.barriers",
        "compiler.passes",
        "compiler.host",
        "compiler.native_cache",
        "compiler.codegen.builder",
        "compiler.codegen.values",
        "compiler.codegen.vector_math.values",
        "compiler.codegen.vector_math.exponentials",
        "compiler.codegen.vector_math.logarithms",
        "compiler.codegen.vector_math.circular",
        "compiler.codegen.vector_math.inverses",
        "compiler.codegen.vector_math.powers",
        "compiler.codegen.vector_math.errors",
        "compiler.codegen.vector_math.gammas",
        "compiler.codegen.vector_math",
        "compiler.codegen.engine",
        "compiler.kernel",
        "compiler.codegen.complex_values",
        "compiler.codegen.loops",
        "compiler.codegen.parts",
        "compiler.codegen.straight",
        "compiler.codegen.across",
        "compiler.codegen.tiled",
        "compiler.codegen.nests",
        "compiler.codegen.gemm",
        "compiler.codegen.lines",
        "compiler.codegen.sequences",
        "compiler.codegen.sorting",
        "compiler.codegen.convolution",
        "compiler.codegen.windows",
        "compiler.codegen.linalg",
        "compiler.codegen.decompositions",
        "compiler.codegen.fourier",
        "compiler.codegen.movement",
        "compiler.codegen.ptx",
        "compiler.codegen.ptx_indexing",
        "compiler.codegen.ptx_straight",
        "compiler.codegen.ptx_convolution",
        "compiler.codegen.nvptx",
        "compiler.codegen",
        "compiler.threads",
        "compiler.runtime",
        "compiler.arena",
        "compiler.pages",
        "compiler.pool",
        "compiler.frames",
        "compiler.steps",
        "compiler.groups",
        "compiler.reductions",
        "compiler.fusion",
        "compiler.lowering",
        "compiler.native",
        "compiler.gpu_launch",
        "compiler.gpu_lowering",
        "compiler.gpu_emulator",
        "compiler.report",
        "compiler.device_layouts",
        "compiler.device_program",
        "compiler.program",
        "compiler.timeline",
        "compiler",
    ),
    6: (
        "backends.numpy_kernels",
        "backends.numpy_cpu",
        "backends.numpy_cpu_families",
        "backends.llvm_kernels",
        "backends.llvm_cpu",
        "backends.ptx_copies",
        "backends.ptx_convolution",
        "backends.ptx_loops",
        "backends.ptx_gpu",
        "backends.cupy_kernels",
        "backends.cupy_gpu",
        "backends.table",
        "backends",
    ),
    7: (
        "api.flat",
        "api.batch",
        "api.derivatives",
        "api.placement",
        "api.containers",
        "api.stages",
        "api.jit",
        "api.inspection",
        "api.products",
        "api.settings",
        "api",
    ),
    8: (
        "numpy.creation",
        "numpy.assembling",
        "numpy.linalg",
        "numpy.fft",
        "numpy",
        "lax_linalg",
        "lax",
        "random",
        "image",
        "vision",
        "nn.checks",
        "nn.functions",
        "nn.initializers",
        "nn.attention",
        "nn.pooling",
        "nn.norms",
        "nn.linear_maps",
        "nn.multi_head",
        "nn.spatial_pooling",
        "nn.sequences",
        "nn.losses.shared",
        "nn.losses.regression",
        "nn.losses.classification",
        "nn.losses.structured",
        "nn.losses",
        "nn.module",
        "nn.basic_layers",
        "nn.activation_layers",
        "nn.conv_layers",
        "nn.norm_layers",
        "nn.recurrent",
        "nn.transformers",
        "nn.wrappers",
        "nn.parameters",
        "nn.summary",
        "nn",
        "scipy",
        "tree_util",
        "dlpack",
        "debugger",
        "debug",
        "ad_checkpoint",
        "checkify",
        "custom_batching",
        "custom_derivatives",
        "flatten_util",
        "optim",
        "sharding",
        "experimental.mesh_utils",
        "experimental.shard_map",
        "experimental",
        "stages",
        "test_util",
        "typing",
    ),
    9: (
        "io.safetensors",
        "io.trees",
        "io.files",
        "io.checkpoints",
        "io.torch_weights",
        "io",
        "data.sources",
        "data.transforms.base",
        "data.transforms.resizing",
        "data.transforms.geometry",
        "data.transforms.colour",
        "data.transforms",
        "data.collating",
        "data.pipeline",
        "data.samplers",
        "data.workers",
        "data.loader",
        "data.datasets",
        "data",
        "amp",
        "metrics",
        "training.state",
        "training.averages",
        "training.stopping",
        "training.tensorboard",
        "training.loggers",
        "training",
        "rngs",
        "logger",
        "export",
        "distributed",
        "testing",
        "memory",
        "profiler",
        "viz",
        "",
        "__main__",
    ),
}

# Libraries that are imported at first need, inside a function.
LAZY = {
    "PIL",
    "cupy",
    "cupyx",
    "difflib",
    "graphviz",
    "hypothesis",
    "llvmlite",
    "matplotlib",
    "ml_dtypes",
    "mpi4py",
    "onnx",
    "opt_einsum",
    "optree",
    "rich",
    "safetensors",
    "scipy",
    "torch",
}

# What `import mgefn` must not load: each costs a tenth of a second or may be absent.
NOT_AT_IMPORT = ("cupy", "hypothesis", "llvmlite", "opt_einsum", "optree", "scipy")

RANKS = {
    name: (digit, place) for digit, names in LAYERS.items() for place, name in enumerate(names)
}


@dataclass(frozen=True)
class Import:
    target: str  # full dotted name, of a module or of a name in one
    line: int
    in_function: bool


def module_name(path: Path, package: Path) -> str:
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(package: Path) -> dict[str, Path]:
    return {module_name(path, package): path for path in sorted(package.rglob("*.py"))}


def imports_of(path: Path, name: str) -> Iterator[Import]:
    """Every import the file can run, also `importlib.import_module("literal")` in a function."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def resolve(level: int, target: str) -> str:
        if level == 0:
            return target
        parts = package.split(".")
        base = ".".join(parts[: len(parts) - (level - 1)])
        return f"{base}.{target}" if target else base

    def walk(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                yield from walk(child, in_function)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = resolve(node.level, node.module or "")
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, in_function)
        elif isinstance(node, ast.Call) and node.args:
            callee = ast.unparse(node.func).rpartition(".")[2]
            first = node.args[0]
            if callee in ("import_module", "__import__") and isinstance(first, ast.Constant):
                literal = str(first.value)
                level = len(literal) - len(literal.lstrip("."))
                yield Import(resolve(level, literal.lstrip(".")), node.lineno, in_function)
        inside = in_function or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)


def entry_of(name: str) -> str | None:
    """The longest entry of LAYERS that names this module or a package around it."""
    inner = name.partition(".")[2]
    if inner == "":
        return ""
    parts = inner.split(".")
    candidates = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((entry for entry in candidates if entry in RANKS), None)


def violations(package: Path) -> list[str]:
    modules = modules_of(package)
    found: list[str] = []
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        place = path.relative_to(package.parent)
        entry = entry_of(name)
        if entry is None:
            found.append(f"{place}: in no layer. Add it to LAYERS, where the data flow puts it")
            continue
        for item in imports_of(path, name):
            where = f"{place}:{item.line}"
            top = item.target.partition(".")[0]
            if top != package.name:
                if item.in_function and top not in LAZY:
                    found.append(f"{where}: imports {top} inside a function. Move it to the top")
                continue
            # `from mgefn.core import avals` names a module, `... import Array` a name in one.
            target = item.target
            while target not in modules and "." in target:
                target = target.rpartition(".")[0]
            if target == name:
                continue
            graph[name].add(target)
            target_entry = entry_of(target)
            if target_entry is None:
                continue  # said once, at the file itself
            lazy_names = name == package.name  # the public module loads namespaces on first use
            if item.in_function and not lazy_names:
                found.append(f"{where}: imports {target} inside a function. Move it to the top")
            if RANKS[target_entry] > RANKS[entry]:
                found.append(
                    f"{where}: layer {RANKS[entry][0]} ({entry}) imports from layer "
                    f"{RANKS[target_entry][0]} ({target_entry or package.name}), which comes later"
                )
    found += [f"import cycle: {' -> '.join(cycle)}" for cycle in cycles(graph)]
    return list(dict.fromkeys(found))  # one line may import several names


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One cycle for each import that closes one, found depth first."""
    found: list[list[str]] = []
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        path.append(name)
        for target in sorted(graph.get(name, ())):
            if target in path:
                found.append([*path[path.index(target) :], target])
            elif target not in done:
                visit(target)
        path.pop()
        done.add(name)

    for name in graph:
        if name not in done:
            visit(name)
    return found


def test_mgefn_imports_follow_the_layers() -> None:
    assert len(modules_of(PACKAGE)) > 10, f"found no package at {PACKAGE}"
    assert violations(PACKAGE) == []


def plant(root: Path, files: dict[str, str]) -> Path:
    package = root / "mgefn"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


GOOD = {
    "errors.py": "",
    "core/__init__.py": "",
    "core/avals.py": "import numpy as np\nfrom mgefn.errors import X\n",
    "core/jaxpr.py": "from . import avals\nfrom .avals import Y\n",
    "api.py": "from .core import jaxpr\nimport mgefn.errors\n",
    "__init__.py": "from .api import grad\ndef __getattr__(n):\n    from . import api\n",
}


def test_checker_accepts_a_package_in_order(tmp_path: Path) -> None:
    assert violations(plant(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("errors.py", "from mgefn.api import grad\n", "layer 0 (errors) imports from layer 7"),
        ("errors.py", "from .core import avals\n", "layer 0 (errors) imports from layer 1"),
        ("core/avals.py", "from .jaxpr import Jaxpr\n", "(core.avals) imports from layer 1"),
        ("core/avals.py", "import mgefn\n", "layer 1 (core.avals) imports from layer 9 (mgefn)"),
        ("core/avals.py", "from mgefn.core import Z\n", "(core.avals) imports from layer 1 (core)"),
        ("core/avals.py", "def f():\n    from mgefn.api import g\n", "layer 1 (core.avals)"),
        ("core/avals.py", "def f():\n    from mgefn import errors\n", "inside a function"),
        ("core/avals.py", "def f():\n    import json\n", "imports json inside a function"),
        (
            "core/avals.py",
            "import importlib\ndef f():\n    importlib.import_module('mgefn.api')\n",
            "(core.avals) imports from layer 7",
        ),
        ("api.py", "try:\n    import mgefn.lax\nexcept ImportError:\n    pass\n", "(lax)"),
        ("stray.py", "", "mgefn/stray.py: in no layer"),
        ("core/jaxpr.py", "from ..api import grad\n", "import cycle: "),
    ],
)
def test_checker_rejects(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    package = plant(tmp_path, {**GOOD, "lax.py": "", file: text})
    assert any(complaint in line for line in violations(package)), violations(package)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import scipy.special\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mgefn.api import grad\n",
    ],
)
def test_checker_allows(tmp_path: Path, text: str) -> None:
    assert violations(plant(tmp_path, {**GOOD, "core/avals.py": text})) == []


def test_import_loads_no_heavy_library() -> None:
    code = f"import mgefn, sys; print(*sorted(set(sys.modules) & set({NOT_AT_IMPORT!r})))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
