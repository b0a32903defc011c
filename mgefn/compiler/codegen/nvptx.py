"""From LLVM text of a GPU kernel to PTX, the assembly that NVIDIA's driver takes.

Nothing here needs a GPU, its driver or CUDA: LLVM writes PTX, and the driver (or `ptxas`) makes
machine code of it. Multiplications and additions stay apart as on the CPU, each rounded; only `fma`
is fused.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from mgefn import forks
from mgefn.compiler import native_cache
from mgefn.errors import ArgumentError, MgefnError

TRIPLE = "nvptx64-nvidia-cuda"
_FORMAT = "1"  # part of the cache key; a new number for every change that the text does not show

# Compute capabilities for which all releases of LLVM in use write code. Code for one runs on later
# devices too: the driver compiles it for them.
CAPABILITIES = (70, 72, 75, 80, 86, 87, 89, 90)

_lock = forks.lock()


def architecture_of(capability: str) -> str:
    """The architecture to write code for, by a device's capability as CuPy tells it ("90").

    Raises:
        ArgumentError: the device is too old for warp shuffles as they are written here.
    """
    fitting = [c for c in CAPABILITIES if c <= int(capability)]
    if not fitting:
        raise ArgumentError(
            f"gpu: need a device of compute capability 7.0 or later, got {capability}. "
            f"Use the CPU, or a device from 2017 or later."
        )
    return f"sm_{fitting[-1]}"


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def _machine(architecture: str) -> Any:
    try:
        target = _llvm().Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise MgefnError(
            f"ptx_of: need an LLVM that writes code for {TRIPLE}, got one without ({error}). "
            f"Install llvmlite from PyPI."
        ) from None
    return target.create_target_machine(cpu=architecture, opt=2)


@functools.lru_cache(maxsize=512)
def ptx_of(text: str, architecture: str) -> str:
    """The PTX of a module; it is kept on disk beside the CPU's code.

    Args:
        text: LLVM IR without data layout and triple, as DeviceKernel.text writes it.
        architecture: "sm_75", "sm_80", "sm_90", ...; code for one runs on later ones too.
    Returns:
        PTX text, with an entry for each kernel of the module.
    Raises:
        ArgumentError: `architecture` is not of that form. MgefnError: the text is not valid.
    """
    if not (architecture.startswith("sm_") and architecture[3:5].isdigit()):
        raise ArgumentError(
            f"ptx_of: architecture must be like 'sm_80', got {architecture!r}. "
            f"Pass 'sm_' and the compute capability without its point."
        )
    parts = (TRIPLE, _FORMAT, str(_llvm().llvm_version_info), architecture, text)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    code = native_cache.load(key)
    if code is None:
        code = _compiled(text, architecture).encode()
        native_cache.store(key, code)
    return code.decode()


def _compiled(text: str, architecture: str) -> str:
    llvm = _llvm()
    with _lock, llvm.create_context() as context:
        machine = _machine(architecture)
        header = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n'
        try:
            with llvm.parse_assembly(header + text, context) as module:
                module.verify()  # first of all: the pass manager crashes on an invalid module
                options = llvm.create_pipeline_tuning_options(2)
                # Registers are what a GPU is short of. ptxas unrolls what it finds worth it.
                options.loop_vectorization = options.slp_vectorization = False
                options.loop_unrolling = False
                builder = llvm.create_pass_builder(machine, options)
                builder.getModulePassManager().run(module, builder)
                return machine.emit_assembly(module)
        except RuntimeError as error:
            raise MgefnError(f"ptx_of: LLVM rejects the module: {error}") from None
