"""From the text of LLVM functions to addresses that can be called.

`compile_module` verifies a module, runs a few passes, generates code for this machine's CPU and
links it into the process. Object code is kept on disk (native_cache.py); on a hit nothing is parsed
or optimised. The same text is never compiled twice in a process.

llvmlite guards every call of LLVM with one lock, which would serialise compilation even with
the GIL released. LLVM itself only asks that threads share no context, so the long calls (parse,
passes, code generation) go around that lock, each in a context and with a target machine of its
own.

Invariants: an address is good as long as its `_Loaded` lives. A module may declare the C library
functions of `symbols()` and what it is given an address for, nothing else of the process.
Position-independent code of the small model: JITLink lays a module's code and constants out in one
piece, and calls out of it go through its own table.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

from mgefn import forks
from mgefn.compiler import native_cache
from mgefn.compiler.host import array_data_offset, thread_count
from mgefn.errors import ArgumentError, MgefnError

_FORMAT = "1"  # part of the cache key; a new number for every change that the text does not show

# What each set of passes runs, in this order. "function" and "full" are LLVM's own pipelines.
_PASSES: dict[str, tuple[str, ...]] = {
    "none": (),
    # The text comes with its loops and vectors laid out; common subexpressions and dead code are
    # what is left to find. Invariants of a loop are hoisted by the code generator.
    "few": ("sroa", "simplify_cfg", "new_gvn"),
    # Code that soon exists and computes the same bits, since no set of passes may contract or
    # reassociate: it takes less than half the time, and its loops one to eight times theirs.
    "quick": ("sroa",),
    "function": (),
    "full": (),
}
_OPT_LEVEL = 1  # of code generation: 2 takes up to half as long again and gives the same loops
_LEVEL_OF = {"quick": 0}  # where it is another one

# Functions of the C library that text may declare or the code generator may call by itself.
_C_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 lround modf nearbyint "
    "nextafter pow remainder rint round sin sincos sinh sqrt tan tanh tgamma trunc frexp exp10"
).split()
_C_MEMORY = ("memcpy", "memmove", "memset", "memcmp", "bzero")
# 16-bit floats and 128-bit integers where the CPU has no instruction for them.
_C_RUNTIME = (
    "__truncsfhf2 __truncdfhf2 __extendhfsf2 __truncsfbf2 __truncdfbf2 __gnu_f2h_ieee "
    "__gnu_h2f_ieee __divti3 __modti3 __udivti3 __umodti3 __multi3 __powisf2 __powidf2"
).split()


# What LLVM knows code by that nobody holds any more, for the linker to unload.
_leaving: collections.deque[Any] = collections.deque()


class _Loaded(dict[str, int]):
    """Addresses of the functions of code that is loaded, and LLVM's pointer to what keeps it."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a dict has none

    def __init__(self, addresses: dict[str, int], pointer: Any):
        super().__init__(addresses)
        self.pointer = pointer

    def __del__(self, leave: Callable[[Any], None] = _leaving.append) -> None:
        # Not at once: the garbage collector may be at work anywhere, a fork among other places.
        leave(self.pointer)


class Compiled(dict[str, int]):
    """Addresses of a module's functions by name.

    Attributes:
        origin: "memory", "disk" or "compiler".
        loaded: what they are good with: with that the code is unloaded.
    """

    origin: str = "compiler"
    loaded: _Loaded


# -- the libraries ------------------------------------------------------------------------------


@functools.cache
def _llvm() -> Any:
    """llvmlite.binding with the native target ready."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _reason() -> str | None:
    """Why native code cannot be used here; None if it can."""
    if array_data_offset() is None:
        return "the memory layout of this Python's NumPy arrays is not known"
    try:
        with _gate:
            llvm = _llvm()
            llvm.check_jit_execution()
            _host()
    except ImportError as error:
        return f"llvmlite cannot be imported ({error})"
    except (OSError, RuntimeError) as error:
        return f"LLVM cannot be used ({error})"
    if not hasattr(llvm, "create_pass_builder"):
        return "llvmlite is older than 0.45"
    return None


def available() -> bool:
    """Can native code be compiled and run here? `why_unavailable` gives the reason if not."""
    return _reason() is None


def why_unavailable() -> str | None:
    """Why native code cannot be used on this machine, or None if it can."""
    return _reason()


@functools.cache
def _host() -> tuple[str, str, str]:
    """Triple, CPU name and CPU features of this machine."""
    llvm = _llvm()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on every platform; the name says enough there
        features = ""
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), features


def cpu_features() -> str:
    """LLVM's list of this CPU's features, as "+avx2,+fma,-avx512f"."""
    return _host()[2]


def _target_machine(level: int = _OPT_LEVEL) -> Any:
    triple, cpu, features = _host()
    target = _llvm().Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small", jit=True
    )


# Idle target machines by their level; one thread uses one at a time.
_machines: collections.defaultdict[int, list[Any]] = collections.defaultdict(list)


@contextlib.contextmanager
def _borrowed_machine(passes: str = "few") -> Iterator[Any]:
    level = _LEVEL_OF.get(passes, _OPT_LEVEL)
    try:
        machine = _machines[level].pop()
    except IndexError:
        machine = _target_machine(level)
    try:
        yield machine
    finally:
        _machines[level].append(machine)


def _unlocked(name: str) -> Callable[..., Any]:
    """A function of LLVM without llvmlite's lock around it; with it, if llvmlite has changed."""
    from llvmlite.binding import ffi

    function = getattr(ffi.lib, name)
    return getattr(function, "_cfn", function)


# -- symbols ------------------------------------------------------------------------------------


@functools.cache
def symbols() -> dict[str, int]:
    """The functions of the C library that compiled code may call, by name."""
    libraries: list[ctypes.CDLL] = []
    if sys.platform == "win32":
        names = ["ucrtbase", "vcruntime140"]
    elif sys.platform == "linux":
        # By name, as find_library runs other programs to find them; musl has all in one library.
        names = [None, "libm.so.6", "libgcc_s.so.1"]
    else:
        names = [None]
    for name in names:
        with contextlib.suppress(OSError):
            libraries.append(ctypes.CDLL(name))
    wanted = [*_C_MEMORY, *_C_RUNTIME, *_C_MATH, *(f"{n}f" for n in _C_MATH)]
    found: dict[str, int] = {}
    for name in wanted:
        for library in libraries:
            with contextlib.suppress(AttributeError):
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                if address:
                    found[name] = address
                    break
    return found


# -- the process's linker -----------------------------------------------------------------------


def _unload(pointer: Any) -> None:
    """Once at most: an interrupt may lose code, which llvmlite's object would unload again."""
    from llvmlite.binding import ffi

    with ffi.OutputString() as message:
        if ffi.lib.LLVMPY_LLJIT_Dylib_Tracker_Dispose(pointer, message):
            raise MgefnError(f"compile: LLVM cannot unload code: {message}")


class _Linker:
    """The one JIT of the process: links object code and keeps it loaded."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._jit: Any = None
        self._count = itertools.count()

    def link(self, code: bytes, names: Sequence[str], extra: dict[str, int]) -> _Loaded:
        llvm = _llvm()
        with self._lock:
            while _leaving:
                _unload(_leaving.pop())
            if self._jit is None:
                self._start(llvm)
            builder = llvm.JITLibraryBuilder().add_object_img(code).add_jit_library("c")
            for name, address in extra.items():
                builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            try:
                tracker = builder.link(self._jit, f"m{next(self._count)}")
            except RuntimeError as error:
                raise MgefnError(
                    f"compile: linking {', '.join(names)} failed: {error}. It needs memory, and "
                    "every function that the code names. Free memory, or call it with "
                    "mgefn.config.jit_backend = 'numpy'."
                ) from None
            addresses, pointer = {name: tracker[name] for name in names}, tracker._ptr
            # llvmlite's object would unload the code when the garbage collector finds it. An
            # interrupt comes before or after, never to two that would unload it.
            tracker.detach()
            return _Loaded(addresses, pointer)

    def _start(self, llvm: Any) -> None:
        jit = llvm.create_lljit_compiler(_target_machine(), use_jit_link=True, suppress_errors=True)
        # No object of llvmlite's may end this or what is in it: not after an interrupt, as a JIT
        # can't go before its libraries, and not at Python's end, of which llvmlite is not told
        # where an atexit handler has loaded it.
        jit._owned = True
        library = llvm.JITLibraryBuilder()
        for name, address in symbols().items():
            library.import_symbol(name, address)
        library.link(jit, "c").detach()
        self._jit = jit  # last: it is started with the library only


_linker = _Linker()
# By cache key. Code that no program holds is unloaded: a process can have some 30,000 modules, as
# each takes two of the mappings that Linux allows it, and 40 KiB.
_kept: set[_Loaded] = set()  # what compile_module gave
_compiled: weakref.WeakValueDictionary[str, _Loaded] = weakref.WeakValueDictionary()


class _Gate:
    """Lets a fork wait until no thread compiles: the child would find its locks taken for good.

    Those of LLVM and llvmlite, and that of a module being imported.
    """

    # No Condition, which an interrupt inside of its methods leaves locked for good.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[int, int] = {}  # thread -> depth
        self._forking = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                if not self._forking or me in self._inside:
                    self._inside[me] = self._inside.get(me, 0) + 1
                    return
            time.sleep(1e-3)

    def __exit__(self, *exc: object) -> None:
        me = threading.get_ident()
        with self._lock:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]

    def before_fork(self) -> None:
        me = threading.get_ident()
        # Bounded, because a signal handler may fork, in the thread that holds the lock or in one
        # that a compiling one waits for.
        held = self._lock.acquire(timeout=10.0)
        self._forking = True
        if held:
            self._lock.release()
        end = time.monotonic() + 10.0
        while self._inside.keys() - {me} and time.monotonic() < end:
            time.sleep(1e-3)

    def after_in_parent(self) -> None:
        self._forking = False

    def after_in_child(self) -> None:
        me = threading.get_ident()
        inside = {t: depth for t, depth in self._inside.items() if t == me}
        self.__init__()
        self._inside = inside


_gate = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_gate.before_fork,
        after_in_parent=_gate.after_in_parent,
        after_in_child=_gate.after_in_child,
    )


_DECLARED = re.compile(
    r"^(?:declare [^@\n]*@(?!llvm\.)([\w.$]+)|@([\w.$]+) = external)", re.MULTILINE
)


def _declared(text: str) -> set[str]:
    """What a text expects from outside, LLVM's intrinsics aside."""
    return {function or variable for function, variable in _DECLARED.findall(text)}


# -- compiling ----------------------------------------------------------------------------------


@functools.cache
def _header() -> str:
    """Data layout and triple, which the passes must know as code generation does."""
    with _borrowed_machine() as machine:
        return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


@contextlib.contextmanager
def _optimised(text: str, passes: str, machine: Any) -> Iterator[Any]:
    """The module of a text, verified and with its passes run."""
    llvm = _llvm()
    from llvmlite.binding import ffi
    from llvmlite.binding.module import ModuleRef

    with llvm.create_context() as context:
        source = ctypes.c_char_p((_header() + text).encode())
        with ffi.OutputString() as message:
            pointer = _unlocked("LLVMPY_ParseAssembly")(context, source, message)
            if not pointer:
                raise MgefnError(f"compile: LLVM cannot read the text: {message}")
        with ModuleRef(pointer, context) as module:
            # First of all: the pass manager crashes the process on an invalid module.
            with ffi.OutputString() as message:
                if _unlocked("LLVMPY_VerifyModule")(module, message):
                    raise MgefnError(f"compile: LLVM rejects the module: {message}")
            _run_passes(llvm, module, passes, machine, "alwaysinline" in text)
            yield module


def _run_passes(llvm: Any, module: Any, passes: str, machine: Any, inline: bool) -> None:
    if passes == "none" and not inline:
        return
    options = llvm.create_pipeline_tuning_options(2)
    builder = llvm.create_pass_builder(machine, options)
    run = _unlocked("LLVMPY_RunNewModulePassManager")
    if inline or _PASSES[passes]:
        manager = llvm.create_new_module_pass_manager()
        if inline:
            manager.add_always_inliner_pass()
        for name in _PASSES[passes]:
            getattr(manager, f"add_{name}_pass")()
        run(manager, module, builder)
    if passes == "full":
        run(builder.getModulePassManager(), module, builder)
    elif passes == "function":
        run_on_function = _unlocked("LLVMPY_RunNewFunctionPassManager")
        for function in module.functions:
            if not function.is_declaration:
                run_on_function(builder.getFunctionPassManager(), function, builder)


def _emit(text: str, passes: str, as_object: bool) -> bytes:
    from llvmlite.binding import ffi

    with _borrowed_machine(passes) as machine, _optimised(text, passes, machine) as module:
        with ffi.OutputString() as message:
            emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")
            buffer = emit(machine, module, int(as_object), message)
            if not buffer:
                raise MgefnError(f"compile: LLVM cannot generate code: {message}")
        try:
            start = ffi.lib.LLVMPY_GetBufferStart(buffer)
            return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _checked_passes(passes: str) -> None:
    if passes not in _PASSES:
        raise ArgumentError(
            f"compile_module: passes must be one of {', '.join(map(repr, _PASSES))}, "
            f"got {passes!r}. Pass one of them."
        )


@functools.cache
def _salt() -> bytes:
    """What object code depends on beside the text."""
    from llvmlite import __version__ as version

    parts = (_FORMAT, *_host(), str(_llvm().llvm_version_info), version, str(_OPT_LEVEL))
    return "\0".join(parts).encode()


def cache_key(text: str, passes: str = "few") -> str:
    """The name under which the object code of a text is kept: 64 hexadecimal digits."""
    digest = hashlib.sha256(_salt())
    digest.update(f"\0{passes}\0{text}".encode())
    return digest.hexdigest()


def compile_module(
    text: str, names: Sequence[str], passes: str = "few", extra: dict[str, int] | None = None
) -> Compiled:
    """Compile a module and link it into the process.

    Args:
        text: LLVM IR, without data layout and triple.
        names: the functions whose addresses are wanted.
        passes: "none"; "few" (simplify control flow, combine, common subexpressions); "quick" (the
            same results by slower code that is soon made; what the disk has from "few" is taken
            in its place); "function" (LLVM's simplification of single functions, with loop
            invariants); "full" (all of O2, with LLVM's own vectoriser). Functions marked
            alwaysinline are inlined by each.
        extra: addresses of further symbols that the text declares. They are no part of the cache
            key, because object code holds their names only.

    Returns:
        The address of each name, good for the life of the process.
    Raises:
        MgefnError: the text is not valid, or names a symbol that is not there.
    """
    _checked_passes(passes)
    with _gate:
        found = _compiled_module(cache_key(text, passes), text, names, passes, extra or {})
    _kept.add(found.loaded)
    return found


def _compiled_module(
    key: str, text: str, names: Sequence[str], passes: str, extra: dict[str, int]
) -> Compiled:
    loaded = _loaded_key(key, extra)
    known = _compiled.get(loaded)
    if known is not None and all(name in known for name in names):
        result = Compiled({name: known[name] for name in names})
        result.origin, result.loaded = "memory", known
        return result
    unknown = sorted(_declared(text) - symbols().keys() - extra.keys())
    if unknown:
        raise MgefnError(f"compile: the text declares symbols without an address: {unknown}.")
    code, origin = _object_code(key, text, passes)
    made = _linker.link(code, names, extra)
    result = Compiled(made)
    result.origin, result.loaded = origin, made
    _compiled[loaded] = made
    return result


def _loaded_key(key: str, extra: dict[str, int]) -> str:
    """What linked code is known by: linked against other addresses it is other code in memory."""
    return key if not extra else f"{key}{sorted(extra.items())}"


def _object_code(key: str, text: str, passes: str) -> tuple[bytes, str]:
    """The object code of a text and where it came from."""
    ahead = _ahead.pop(key, None)
    if ahead is not None:
        return ahead
    code = _stored(key, text, passes)
    return (_made(key, text, passes), "compiler") if code is None else (code, "disk")


def _stored(key: str, text: str, passes: str) -> bytes | None:
    """The object code of a text that the disk has, better code than what is asked for included."""
    return native_cache.load(cache_key(text) if passes == "quick" else key)


def _made(key: str, text: str, passes: str) -> bytes:
    code = _emit(text, passes, as_object=True)
    if passes != "quick":
        native_cache.store(key, code)
    return code


_ahead: dict[str, tuple[bytes, str]] = {}  # object code that is not linked yet, by cache key


def _side_by_side(job: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The results of a job, on as many threads as `config.num_threads` allows."""
    workers = min(len(items), thread_count())
    if workers < 2:
        return [job(item) for item in items]
    try:
        # The class is loaded here, by its name: it can't be while Python ends.
        executor = futures.ThreadPoolExecutor(workers, thread_name_prefix="mgefn-compile")
        pending = [executor.submit(job, item) for item in items]
    except RuntimeError:  # in an atexit handler no thread can be started any more
        return [job(item) for item in items]
    with executor:
        return [each.result() for each in pending]


def compile_ahead(modules: Sequence[tuple[str, str]]) -> None:
    """Make the object code of modules that are linked one after the other, side by side.

    Args:
        modules: text and passes of each, as compile_module takes them next.
    """
    with _gate:
        _make_ahead({cache_key(text, passes): (text, passes) for text, passes in modules})


def _make_ahead(modules: dict[str, tuple[str, str]]) -> None:
    """The same for modules by their cache keys."""
    missing = []
    for key, module in modules.items():
        # Here, because threads that hold the interpreter's lock by turns take longer for it.
        code = _stored(key, *module)
        if code is not None:
            _ahead[key] = code, "disk"
        else:
            missing.append((key, *module))
    made = _side_by_side(lambda module: _made(*module), missing)
    _ahead.update((m[0], (code, "compiler")) for m, code in zip(missing, made, strict=True))


def compile_modules(
    modules: Sequence[tuple[str, Sequence[str], str, dict[str, int]]],
) -> list[Compiled]:
    """Compile several modules, on several threads (as many as `config.num_threads` allows).

    Args:
        modules: text, wanted names, passes and addresses of further symbols of each; see
            compile_module.

    Returns:
        The addresses of each module, in the order given, good as long as each result lives.
    """
    for _, _, passes, _ in modules:
        _checked_passes(passes)
    keys = [cache_key(text, passes) for text, _, passes, _ in modules]
    with _gate:
        _make_ahead(
            {
                key: (text, passes)
                for key, (text, _, passes, extra) in zip(keys, modules, strict=True)
                if _loaded_key(key, extra) not in _compiled
            }
        )
        return [_compiled_module(key, *m) for key, m in zip(keys, modules, strict=True)]


def ir_of(text: str, passes: str = "few") -> str:
    """The text of a module after its passes."""
    _checked_passes(passes)
    with _gate, _borrowed_machine() as machine, _optimised(text, passes, machine) as module:
        return str(module)


def asm_of(text: str, passes: str = "few") -> str:
    """The assembly that a module becomes on this machine."""
    _checked_passes(passes)
    with _gate:
        return _emit(text, passes, as_object=False).decode()
