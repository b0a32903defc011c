"""Compiling text to addresses: what is accepted, what is cached, and what damage is survived."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import threading
import time

import pytest

from mgefn.compiler import native_cache
from mgefn.compiler.codegen import engine
from mgefn.errors import ArgumentError, MgefnError

_fresh = iter(range(1 << 30))


def adder(constant: int, name: str = "f") -> str:
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {constant}\n  ret i64 %y\n}}\n"


def call(address: int, x: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(x)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty disk cache; what this process has compiled so far is forgotten."""
    monkeypatch.setenv("MGEFN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MGEFN_CACHE", raising=False)
    monkeypatch.setattr(engine, "_compiled", {})
    return tmp_path / "cache" / "native"


def forget() -> None:
    engine._compiled.clear()


def test_this_machine_can_compile():
    assert engine.available(), engine.why_unavailable()
    assert engine.why_unavailable() is None


def test_functions_of_a_module_are_called(cache):
    code = engine.compile_module(adder(3) + adder(5, "g"), ["f", "g"])
    assert call(code["f"], 10) == 13
    assert call(code["g"], 10) == 15


def test_modules_may_use_the_same_names(cache):
    first = engine.compile_module(adder(1), ["f"])
    second = engine.compile_module(adder(2), ["f"])
    assert (call(first["f"], 0), call(second["f"], 0)) == (1, 2)


def test_two_names_of_one_module_at_different_times(cache):
    text = adder(3) + adder(5, "g")
    assert call(engine.compile_module(text, ["f"])["f"], 0) == 3
    assert call(engine.compile_module(text, ["g"])["g"], 0) == 5


@pytest.mark.parametrize("passes", ["none", "few", "function", "full"])
def test_every_set_of_passes_computes_the_same(cache, passes):
    text = """
define internal i64 @square(i64 %x) alwaysinline {
  %y = mul i64 %x, %x
  ret i64 %y
}
define i64 @f(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %s = phi i64 [ 0, %entry ], [ %s1, %loop ]
  %q = call i64 @square(i64 %i)
  %s1 = add i64 %s, %q
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %s1
}
"""
    assert call(engine.compile_module(text, ["f"], passes)["f"], 10) == sum(
        i * i for i in range(10)
    )
    assert "call i64 @square" not in engine.ir_of(text, passes)


def test_passes_shorten_and_none_keeps(cache):
    text = "define i64 @f(i64 %x) {\n  %a = add i64 %x, 1\n  %b = add i64 %x, 1\n"
    text += "  %c = sub i64 %a, %b\n  ret i64 %c\n}\n"
    assert "sub i64" in engine.ir_of(text, "none")
    assert "sub i64" not in engine.ir_of(text, "few")


def test_assembly_is_shown():
    assert "ret" in engine.asm_of(adder(7))


def test_passes_have_names():
    with pytest.raises(ArgumentError, match=r"passes must be one of 'none', 'few'.*got 'all'"):
        engine.compile_module(adder(1), ["f"], passes="all")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "cannot read the text.*expected top-level entity"),
        ("define void @f() {\n  ret i32 0\n}", "cannot read the text"),
        # Readable, and wrong: the pass manager would crash on it.
        (
            "define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret i32 %x\n}",
            "rejects the module.*does not dominate",
        ),
        ("declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n  ret void\n}",
         "declares symbols without an address: .'nowhere'"),
        ("define void @g() {\n  ret void\n}", "linking f failed.*Symbols not found"),
    ],
)  # fmt: skip
def test_a_wrong_module_is_an_error(cache, text, message, capfd):
    for _ in range(2):  # the second time from the disk cache, where it got that far
        with pytest.raises(MgefnError, match=f"(?s)compile: .*{message}"):
            engine.compile_module(text, ["f"])
    assert call(engine.compile_module(adder(1), ["f"])["f"], 1) == 2  # the process lives on


def test_functions_of_the_c_library_are_found(cache):
    text = "declare double @sin(double)\ndefine double @f(double %x) {\n"
    text += "  %y = call double @sin(double %x)\n  ret double %y\n}\n"
    code = engine.compile_module(text, ["f"])
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code["f"])
    assert function(0.5) == math.sin(0.5)


def test_nothing_else_of_the_process_is_found(cache):
    text = "declare i32 @getpid()\ndefine i32 @f() {\n  %x = call i32 @getpid()\n  ret i32 %x\n}\n"
    with pytest.raises(MgefnError, match="getpid"):
        engine.compile_module(text, ["f"])


def test_given_symbols_are_no_part_of_the_cached_code(cache):
    text = "@cell = external global i64\ndefine i64 @f(i64 %x) {\n  %c = load i64, ptr @cell\n"
    text += "  %y = add i64 %x, %c\n  ret i64 %y\n}\n"
    cells = [ctypes.c_int64(100), ctypes.c_int64(200)]
    results = []
    for cell in cells:
        extra = {"cell": ctypes.addressof(cell)}
        code = engine.compile_module(text, ["f"], extra=extra)
        results.append((call(code["f"], 1), code.origin))
    assert results == [(101, "compiler"), (201, "disk")]


def test_the_same_text_is_compiled_once(cache):
    first = engine.compile_module(adder(11), ["f"])
    second = engine.compile_module(adder(11), ["f"])
    assert (first.origin, second.origin) == ("compiler", "memory")
    assert first == second
    forget()
    third = engine.compile_module(adder(11), ["f"])
    assert third.origin == "disk"
    assert call(third["f"], 1) == 12


def test_each_set_of_passes_is_cached_apart(cache):
    engine.compile_module(adder(11), ["f"], "few")
    assert engine.compile_module(adder(11), ["f"], "none").origin == "compiler"


def test_another_process_finds_the_code(cache):
    engine.compile_module(adder(21), ["f"])
    program = (
        "from mgefn.compiler.codegen import engine\n"
        f"code = engine.compile_module({adder(21)!r}, ['f'])\n"
        "print(code.origin)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "disk", done.stderr


@pytest.mark.parametrize("value", ["0", "off"])
def test_the_disk_cache_can_be_turned_off(cache, monkeypatch, value):
    monkeypatch.setenv("MGEFN_CACHE", value)
    engine.compile_module(adder(1), ["f"])
    forget()
    assert engine.compile_module(adder(1), ["f"]).origin == "compiler"
    assert not cache.exists()


def test_the_folder_is_private_and_has_whole_files_only(cache):
    engine.compile_module(adder(1), ["f"])
    if os.name == "posix":
        assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in cache.iterdir()] == [".o"]


def damaged(path, how):
    data = bytearray(path.read_bytes())
    if how == "a byte in the code":
        data[-10] ^= 1
    elif how == "a byte of the checksum":
        data[20] ^= 0x80
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "empty":
        data.clear()
    elif how == "longer":
        data += b"\0"
    elif how == "another format":
        data[:5] = b"other"
    path.write_bytes(data)


@pytest.mark.parametrize(
    "how",
    ["a byte in the code", "a byte of the checksum", "cut", "empty", "longer", "another format"],
)
def test_a_damaged_entry_is_compiled_anew(cache, how):
    engine.compile_module(adder(31), ["f"])
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    damaged(path, how)
    assert path.read_bytes() != whole
    forget()
    code = engine.compile_module(adder(31), ["f"])
    assert code.origin == "compiler"
    assert call(code["f"], 1) == 32
    assert path.read_bytes() == whole


def test_an_entry_under_another_name_is_not_taken(cache):
    engine.compile_module(adder(41), ["f"])
    (path,) = cache.iterdir()
    path.rename(cache / (engine.cache_key(adder(42)) + ".o"))
    code = engine.compile_module(adder(42), ["f"])
    assert (code.origin, call(code["f"], 0)) == ("compiler", 42)


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path, monkeypatch):
    # A file in the way: unlike permission bits, it stops the superuser too.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MGEFN_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(engine, "_compiled", {})
    assert call(engine.compile_module(adder(51), ["f"])["f"], 0) == 51
    assert native_cache.folder() is None


@pytest.mark.skipif(os.name != "posix", reason="needs permission bits")
def test_a_folder_that_others_may_write_is_not_used(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    engine.compile_module(adder(52), ["f"])
    assert list(cache.iterdir()) == []


def test_a_folder_that_disappears_is_survived(cache):
    engine.compile_module(adder(53), ["f"])
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    forget()
    assert call(engine.compile_module(adder(53), ["f"])["f"], 0) == 53


def test_the_cache_removes_what_was_used_longest_ago(cache):
    keys = [f"{i:064x}" for i in range(8)]
    for age, key in enumerate(keys):
        native_cache.store(key, bytes(1000))
        os.utime(cache / f"{key}.o", (time.time() - 3 * 86400 + age,) * 2)
    stale = cache / "x.tmp"
    stale.write_bytes(b"")
    os.utime(stale, (0, 0))
    assert native_cache.load(keys[0]) == bytes(1000)  # used now: no longer the oldest
    native_cache.shrink(cache, limit=3500)
    left = [key for key in keys if native_cache.load(key) is not None]
    assert left == [keys[0], keys[6], keys[7]]
    assert not stale.exists()


def test_storing_keeps_the_bound(cache, monkeypatch):
    monkeypatch.setattr(native_cache, "LIMIT", 5000)
    monkeypatch.setattr(native_cache, "LOOK_EVERY", 4)
    monkeypatch.setattr(native_cache, "_stores", 0)
    for i in range(40):
        native_cache.store(f"{i:064x}", bytes(1000))
    # At most what fits, and what came since the last look.
    assert 3 <= len(list(cache.iterdir())) <= 4 + 3


def test_the_place_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("MGEFN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert native_cache.cache_home() == tmp_path / "mgefn"
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(sys, "platform", "win32")
    assert native_cache.cache_home() == tmp_path / "local" / "mgefn"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert native_cache.cache_home().parts[-3:] == ("Library", "Caches", "mgefn")


def test_modules_are_compiled_together_in_order(cache):
    modules = [(adder(100 + i), ["f"], "few", {}) for i in range(12)]
    compiled = engine.compile_modules(modules)
    assert [call(code["f"], 0) for code in compiled] == [100 + i for i in range(12)]
    assert engine.compile_modules([]) == []


def test_an_error_in_one_of_several_modules_is_raised(cache):
    with pytest.raises(MgefnError, match="cannot read"):
        texts = [adder(1), "nonsense", adder(2)]
        engine.compile_modules([(text, ["f"], "few", {}) for text in texts])


def test_many_threads_compile_at_once(cache):
    results: dict[int, int] = {}

    def work(part: int) -> None:
        for i in range(10):
            # Every text is compiled by two threads.
            constant = 1000 * (part // 2) + i
            results[10 * part + i] = call(engine.compile_module(adder(constant), ["f"])["f"], 1) - (
                constant + 1
            )

    threads = [threading.Thread(target=work, args=(part,)) for part in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 60
    assert set(results.values()) == {0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_threads_compile_can_compile(cache):
    # In a process of its own, so that a hang ends this test and not the run.
    program = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
from tests.compiler.test_engine import adder, call
from mgefn.compiler.codegen import engine
stop = threading.Event()
def work(part):
    i = 0
    while not stop.is_set():
        i += 1
        engine.compile_module(adder(100000 * part + i), ["f"])
threads = [threading.Thread(target=work, args=(part,)) for part in range(2)]
for thread in threads:
    thread.start()
for round in range(6):
    pid = os.fork()
    if pid == 0:
        code = engine.compile_module(adder(-round - 1), ["f"])
        os._exit(call(code["f"], 100))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 100 - round - 1
stop.set()
for thread in threads:
    thread.join()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "done", done.stderr
