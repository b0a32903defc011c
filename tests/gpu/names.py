"""Writes cupy_names.json: what the installed CuPy has of the names that kernels use.

    python -m tests.gpu.names

needs CuPy and no GPU. Names are found in the kernels' source, and must be there; a function whose
module can't be imported without CUDA's libraries is read from its source.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2] / "mgefn"
SOURCES = (ROOT / "backends" / "cupy_kernels", ROOT / "core")
HERE = {"xp": "cupy", "cupyx": "cupyx", "special": "cupyx.scipy.special"}
HERE["solvers"] = "cupyx.scipy.linalg"
# Names that tables hold as text, and those of operators.
MORE = (
    "remainder true_divide negative invert absolute bitwise_xor bitwise_and bitwise_or left_shift "
    "right_shift floor_divide power add subtract multiply less less_equal greater greater_equal "
    "equal not_equal divide"
).split()


def used() -> set[str]:
    """The full names that kernels look up in the library, those of cupy.cuda left out."""
    return {name for name in _found() if not name.startswith("cupy.cuda")}


def of_cuda() -> set[str]:
    """Those of cupy.cuda, for which the stand-in has its own code."""
    return {name for name in _found() if name.startswith("cupy.cuda")}


def _found() -> set[str]:
    found = {f"cupy.{name}" for name in MORE}
    files = [p for folder in SOURCES for p in sorted(folder.glob("*.py"))]
    files += [ROOT / "compiler" / f"{name}.py" for name in ("device_program", "gpu_launch")]
    for path in [*files, ROOT / "backends" / "cupy_gpu.py"]:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                dotted = ast.unparse(node)
                head, _, rest = dotted.partition(".")
                if head in HERE and re.fullmatch(r"[\w.]+", dotted):
                    found.add(f"{HERE[head]}.{rest}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    home = {
                        "Ufunc": "cupy", "Scan": "cupy", "Doubling": "cupy",
                        "_named": "cupyx.scipy.special", "_accumulated": "cupy",
                        "extremum": "cupy", "_position": "cupy", "_window_extremum": "cupy",
                        "_joined_at": "cupy",
                    }.get(node.func.id)  # fmt: skip
                    if home:
                        found.add(f"{home}.{first.value}")
    found |= {"cupyx.scatter_max", "cupyx.scatter_min", "cupy.maximum", "cupy.minimum"}
    return found


def described(name: str) -> Any:
    """What CuPy has of a name: its loops, its parameters, or that it is a module.

    Raises:
        AttributeError: it has none.
    """
    path, _, last = name.rpartition(".")
    try:
        home: Any = importlib.import_module(path)
        value = getattr(home, last)
    except ImportError:
        return {"parameters": _from_source(path, last)}
    if inspect.ismodule(value):
        return "module"
    loops = getattr(value, "types", None)
    if loops is not None:
        return {"loops": list(loops)}
    try:
        return {"parameters": list(inspect.signature(value).parameters)}
    except (TypeError, ValueError):
        text = (value.__doc__ or "").strip().splitlines()[0]
        return {"parameters": re.findall(r"(\w+)(?==|,|\))", text.partition("(")[2])}


def _from_source(module: str, name: str) -> list[str]:
    package, _, _ = module.partition(".")
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
    raise AttributeError(f"{module}.{name}")


def table() -> dict[str, Any]:
    names = set(used())
    for name in list(names):
        parts = name.split(".")
        names |= {".".join(parts[:n]) for n in range(2, len(parts))}
    names -= {"cupyx.scipy", "cupyx.scipy.special", "cupyx.scipy.linalg"}
    return {name: described(name) for name in sorted(names)}


if __name__ == "__main__":
    target = Path(__file__).with_name("cupy_names.json")
    rows = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in table().items()]
    target.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    print(f"{target}: {len(rows)} names")
