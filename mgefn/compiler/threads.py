"""The process's pool of worker threads, and `parallel_for` over it.

Workers are Python threads that call one native function through ctypes, which lets go of the GIL,
and stay in it. Python starts and joins them; what they do is the LLVM text below.

A region of work is cut into chunks [k * chunk, min((k + 1) * chunk, count)), whatever the number of
threads, so results do not depend on it. TICKET holds how many chunks nobody has claimed; whoever
takes one off while it is positive owns a chunk, and the region cannot end before that chunk is done
(PENDING counts those not done). So a worker that comes late finds nothing to claim, or a chunk of
the next region whose description it reads only now: no worker needs to be waited for, and a
sleeping one costs nothing. The caller works too, as worker 0.

Idle workers spin for some tens of microseconds, then sleep on a semaphore. SLEEPERS counts those
that have no token of it coming: a waker takes counts off and posts as many tokens, a worker that
changes its mind takes its own count back or else waits for its token.

One region at a time has the pool. A second caller, or one inside a kernel, runs its chunks itself,
in order. The pool starts at the first region that wants it, also after a fork, and is resized when
`config.num_threads` changes.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import forks
from mgefn.compiler.codegen.engine import compile_module
from mgefn.compiler.host import thread_count
from mgefn.config import hooks

SPIN_SECONDS = 40e-6  # how long an idle worker spins before it sleeps
_FIRST_WAKE = 3  # sleepers that a caller wakes; each of them wakes two more while there is work
_JOIN_SECONDS = 5.0  # at exit, for a worker inside a kernel

# Byte offsets in the pool's memory. What different threads write lies 128 bytes apart: CPUs fetch
# cache lines of 64 bytes in pairs.
_TICKET = 0
_PENDING = 128
_LOCK = 256
_SLEEPERS = 384
_KERNEL, _PTRS, _DESC, _COUNT, _CHUNK, _CHUNKS = range(512, 560, 8)
_LIMIT = 640  # workers wanted
_STARTED = 648  # workers there are
_ENDING = 656  # some workers are to end: nobody falls asleep meanwhile
_SPINS = 664  # rounds of the loop that spins
_WAIT, _POST, _SEMAPHORE, _YIELD, _NEED = range(672, 712, 8)
_REGIONS = 768  # parallel regions so far
_ALONE = 776  # regions that found the pool taken
_SIZE = 896

_X86 = ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()")
_ARM = ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)")  # yield
# An instruction that tells the CPU of a spinning loop, and its declaration.
_PAUSE, _PAUSE_DECLARATION = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(
    platform.machine().lower(), ("fence seq_cst", "")
)


def _at(offset: int) -> str:
    return f"ptr getelementptr (i8, ptr @mgefn_pool, i64 {offset})"


def text() -> str:
    """The functions: mgefn_parallel_for, mgefn_worker, mgefn_resize, mgefn_spin."""
    # `wait` and `post` are called with the arguments of every system's function at once: sem_wait
    # (semaphore), WaitForSingleObject(semaphore, forever), dispatch_semaphore_wait(the same);
    # sem_post(semaphore), ReleaseSemaphore(semaphore, 1, null). One that takes fewer ignores them.
    return f"""
@mgefn_pool = external global i8

; Claim chunks and run them until none is left.
define internal void @work(i64 %worker) nounwind {{
entry:
  br label %claim
claim:
  %seen = load atomic i64, {_at(_TICKET)} monotonic, align 8
  %some = icmp sgt i64 %seen, 0
  br i1 %some, label %take, label %done
take:
  %ticket = atomicrmw sub {_at(_TICKET)}, i64 1 acq_rel
  %mine = icmp sgt i64 %ticket, 0
  br i1 %mine, label %run, label %done
run:
  ; The claim holds the region open, so its description stands still.
  %kernel = load ptr, {_at(_KERNEL)}
  %ptrs = load ptr, {_at(_PTRS)}
  %desc = load ptr, {_at(_DESC)}
  %count = load i64, {_at(_COUNT)}
  %chunk = load i64, {_at(_CHUNK)}
  %chunks = load i64, {_at(_CHUNKS)}
  %index = sub i64 %chunks, %ticket
  %begin = mul i64 %index, %chunk
  %after = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %count)
  call void %kernel(ptr %ptrs, ptr %desc, i64 %begin, i64 %end, i64 %worker)
  %left = atomicrmw sub {_at(_PENDING)}, i64 1 acq_rel
  br label %claim
done:
  ret void
}}

; Take up to %most counts off SLEEPERS and post as many tokens.
define internal void @wake(i64 %most) nounwind {{
entry:
  %first = load atomic i64, {_at(_SLEEPERS)} seq_cst, align 8
  br label %try
try:
  %sleepers = phi i64 [ %first, %entry ], [ %seen, %exchange ]
  %taken = call i64 @llvm.smin.i64(i64 %sleepers, i64 %most)
  %any = icmp sgt i64 %taken, 0
  br i1 %any, label %exchange, label %done
exchange:
  %rest = sub i64 %sleepers, %taken
  %pair = cmpxchg {_at(_SLEEPERS)}, i64 %sleepers, i64 %rest seq_cst seq_cst
  %seen = extractvalue {{ i64, i1 }} %pair, 0
  %ok = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ok, label %ready, label %try
ready:
  %post = load ptr, {_at(_POST)}
  %semaphore = load ptr, {_at(_SEMAPHORE)}
  br label %token
token:
  %n = phi i64 [ %taken, %ready ], [ %n1, %token ]
  call i32 %post(ptr %semaphore, i64 1, ptr null)
  %n1 = sub i64 %n, 1
  %more = icmp sgt i64 %n1, 0
  br i1 %more, label %token, label %done
done:
  ret void
}}

; What a worker thread does until LIMIT falls below its number.
define void @mgefn_worker(i64 %worker) nounwind {{
entry:
  br label %look
look:
  %spins = phi i64 [ 0, %entry ], [ 0, %busy ], [ 0, %awake ],
                   [ %spins1, %spin ], [ %spins1, %stay_up ]
  %limit = load atomic i64, {_at(_LIMIT)} monotonic, align 8
  %stay = icmp sle i64 %worker, %limit
  br i1 %stay, label %check, label %leave
check:
  %ticket = load atomic i64, {_at(_TICKET)} monotonic, align 8
  %some = icmp sgt i64 %ticket, 0
  br i1 %some, label %busy, label %idle
busy:
  call void @work(i64 %worker)
  br label %look
idle:
  %bound = load i64, {_at(_SPINS)}
  %spins1 = add i64 %spins, 1
  %early = icmp slt i64 %spins1, %bound
  br i1 %early, label %spin, label %tired
spin:
  {_PAUSE}
  br label %look
tired:
  ; One that fell asleep now could take the token of a worker that is to end.
  %ending = load atomic i64, {_at(_ENDING)} monotonic, align 8
  %hold = icmp ne i64 %ending, 0
  br i1 %hold, label %stay_up, label %drowsy
stay_up:
  %yield0 = load ptr, {_at(_YIELD)}
  call i32 %yield0()
  br label %look

drowsy:
  ; Count in first and look again after: a caller stores TICKET first and reads SLEEPERS after, so
  ; one of the two sees the other; likewise LIMIT and ENDING. All are sequentially consistent.
  %before = atomicrmw add {_at(_SLEEPERS)}, i64 1 seq_cst
  %ticket2 = load atomic i64, {_at(_TICKET)} seq_cst, align 8
  %some2 = icmp sgt i64 %ticket2, 0
  %limit2 = load atomic i64, {_at(_LIMIT)} seq_cst, align 8
  %gone2 = icmp sgt i64 %worker, %limit2
  %ending2 = load atomic i64, {_at(_ENDING)} seq_cst, align 8
  %hold2 = icmp ne i64 %ending2, 0
  %must = or i1 %gone2, %hold2
  %changed = or i1 %some2, %must
  br i1 %changed, label %cancel, label %sleep
cancel:
  %count = load atomic i64, {_at(_SLEEPERS)} seq_cst, align 8
  br label %cancel_try
cancel_try:
  %sleepers = phi i64 [ %count, %cancel ], [ %seen, %cancel_exchange ]
  %mine = icmp sgt i64 %sleepers, 0
  br i1 %mine, label %cancel_exchange, label %sleep  ; a token is on its way: take it
cancel_exchange:
  %rest = sub i64 %sleepers, 1
  %pair = cmpxchg {_at(_SLEEPERS)}, i64 %sleepers, i64 %rest seq_cst seq_cst
  %seen = extractvalue {{ i64, i1 }} %pair, 0
  %ok = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ok, label %awake, label %cancel_try
sleep:
  %wait = load ptr, {_at(_WAIT)}
  %semaphore = load ptr, {_at(_SEMAPHORE)}
  %code = call i32 %wait(ptr %semaphore, i64 -1)
  %woken = icmp eq i32 %code, 0
  br i1 %woken, label %spread, label %again  ; a signal ends sem_wait early
again:
  %yield = load ptr, {_at(_YIELD)}
  call i32 %yield()
  br label %sleep
spread:
  %ticket3 = load atomic i64, {_at(_TICKET)} monotonic, align 8
  %two = icmp sgt i64 %ticket3, 1
  br i1 %two, label %others, label %awake
others:
  call void @wake(i64 2)
  br label %awake
awake:
  br label %look
leave:
  ret void
}}

; kernel(ptrs, desc, begin, end, worker) over all chunks of [0, count).
define void @mgefn_parallel_for(ptr %kernel, ptr %ptrs, ptr %desc, i64 %count, i64 %chunk)
    nounwind {{
entry:
  %whole = icmp sle i64 %count, %chunk
  %uncut = icmp sle i64 %chunk, 0
  %single = or i1 %whole, %uncut
  br i1 %single, label %once, label %cut
once:
  call void %kernel(ptr %ptrs, ptr %desc, i64 0, i64 %count, i64 0)
  ret void
cut:
  %up = sub i64 %chunk, 1
  %sum = add i64 %count, %up
  %chunks = sdiv i64 %sum, %chunk
  %limit = load atomic i64, {_at(_LIMIT)} monotonic, align 8
  %started = load atomic i64, {_at(_STARTED)} monotonic, align 8
  %short = icmp slt i64 %started, %limit
  br i1 %short, label %need, label %enter
need:
  %starter = load ptr, {_at(_NEED)}
  call void %starter()
  br label %enter
enter:
  %workers = load atomic i64, {_at(_STARTED)} monotonic, align 8
  %none = icmp sle i64 %workers, 0
  br i1 %none, label %serial, label %lock
lock:
  %pair = cmpxchg {_at(_LOCK)}, i64 0, i64 1 acquire monotonic
  %ok = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ok, label %publish, label %taken
taken:
  %alone = atomicrmw add {_at(_ALONE)}, i64 1 monotonic
  br label %serial

publish:
  store ptr %kernel, {_at(_KERNEL)}
  store ptr %ptrs, {_at(_PTRS)}
  store ptr %desc, {_at(_DESC)}
  store i64 %count, {_at(_COUNT)}
  store i64 %chunk, {_at(_CHUNK)}
  store i64 %chunks, {_at(_CHUNKS)}
  store atomic i64 %chunks, {_at(_PENDING)} monotonic, align 8
  store atomic i64 %chunks, {_at(_TICKET)} seq_cst, align 8
  %regions = atomicrmw add {_at(_REGIONS)}, i64 1 monotonic
  %others = sub i64 %chunks, 1
  %most = call i64 @llvm.smin.i64(i64 %others, i64 {_FIRST_WAKE})
  call void @wake(i64 %most)
  call void @work(i64 0)
  br label %wait
wait:
  %spins = phi i64 [ 0, %publish ], [ %spins1, %pause ], [ %spins1, %yield ]
  %pending = load atomic i64, {_at(_PENDING)} acquire, align 8
  %over = icmp sle i64 %pending, 0
  br i1 %over, label %unlock, label %more
more:
  %spins1 = add i64 %spins, 1
  %bound = load i64, {_at(_SPINS)}
  %early = icmp slt i64 %spins, %bound
  br i1 %early, label %pause, label %yield
pause:
  {_PAUSE}
  br label %wait
yield:
  ; The worker that has the last chunk may have lost its CPU.
  %give = load ptr, {_at(_YIELD)}
  call i32 %give()
  br label %wait
unlock:
  store atomic i64 0, {_at(_LOCK)} release, align 8
  ret void

serial:
  %begin = phi i64 [ 0, %enter ], [ 0, %taken ], [ %after, %serial ]
  %after = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %count)
  call void %kernel(ptr %ptrs, ptr %desc, i64 %begin, i64 %end, i64 0)
  %left = icmp slt i64 %after, %count
  br i1 %left, label %serial, label %finish
finish:
  ret void
}}

; Set LIMIT and let every sleeper look at it. ENDING stays set; the caller joins threads first.
define void @mgefn_resize(i64 %limit) nounwind {{
entry:
  store atomic i64 1, {_at(_ENDING)} seq_cst, align 8
  store atomic i64 %limit, {_at(_LIMIT)} seq_cst, align 8
  call void @wake(i64 9223372036854775807)
  ret void
}}

; What a round of spinning costs is measured with this.
define void @mgefn_spin(i64 %rounds) nounwind {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %ticket = load atomic i64, {_at(_TICKET)} monotonic, align 8
  {_PAUSE}
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %rounds
  br i1 %more, label %loop, label %done
done:
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
{_PAUSE_DECLARATION}
"""


# -- the system's semaphore ---------------------------------------------------------------------


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _System:
    """A semaphore that starts at 0: the addresses of its functions, and a fresh handle."""

    def __init__(self) -> None:
        # Windows and macOS are written to their documented interfaces; tests run on Linux.
        if sys.platform == "win32":
            kernel32 = ctypes.WinDLL("kernel32")
            self.wait = _address(kernel32.WaitForSingleObject)
            self.post = _address(kernel32.ReleaseSemaphore)
            self.give_way = _address(kernel32.SwitchToThread)
            create = kernel32.CreateSemaphoreW
            create.restype = ctypes.c_void_p
            create.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
            self._create = lambda: create(None, 0, 1 << 30, None)
            return
        libc = ctypes.CDLL(None)
        self.give_way = _address(libc.sched_yield)
        if sys.platform == "darwin":
            self.wait = _address(libc.dispatch_semaphore_wait)
            self.post = _address(libc.dispatch_semaphore_signal)
            make = libc.dispatch_semaphore_create
            make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_long]
            self._create = lambda: make(0)
            return
        self.wait = _address(libc.sem_wait)
        self.post = _address(libc.sem_post)
        # Kept for good: a parent's workers may still wait on it. A sem_t has at most 64 bytes.
        self._memory: list[Any] = []

        def create_posix() -> int:
            memory = (ctypes.c_uint64 * 8)()
            self._memory.append(memory)
            libc.sem_init(memory, 0, 0)
            return ctypes.addressof(memory)

        self._create = create_posix

    def semaphore(self) -> int:
        return self._create()


# -- the pool -----------------------------------------------------------------------------------


class Pool:
    """The pool's memory, its native functions, and its Python threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._fork_has_lock = False
        self._threads: dict[int, threading.Thread] = {}  # by worker number, from 1
        self._closed = False
        raw = np.zeros(_SIZE + 128, np.uint8)
        start = -raw.ctypes.data % 128
        self._words = raw[start : start + _SIZE].view(np.int64)
        self.address = self._words.ctypes.data
        names = ["mgefn_parallel_for", "mgefn_worker", "mgefn_resize", "mgefn_spin"]
        code = compile_module(text(), names, extra={"mgefn_pool": self.address})
        self.parallel_for_address = code["mgefn_parallel_for"]
        number = ctypes.CFUNCTYPE(None, ctypes.c_int64)
        self._worker = number(code["mgefn_worker"])
        self._set_limit = number(code["mgefn_resize"])
        self._system = _System()
        self._need = ctypes.CFUNCTYPE(None)(self._start)
        # NumPy writes an aligned int64 with one store, so workers may read these words meanwhile.
        self._words[_WAIT // 8] = self._system.wait
        self._words[_POST // 8] = self._system.post
        self._words[_YIELD // 8] = self._system.give_way
        self._words[_NEED // 8] = _address(self._need)
        self._words[_SEMAPHORE // 8] = self._system.semaphore()
        self._words[_SPINS // 8] = _spins(number(code["mgefn_spin"]))
        self._words[_LIMIT // 8] = thread_count() - 1

    @property
    def regions(self) -> int:
        """Parallel regions so far in this process."""
        return int(self._words[_REGIONS // 8])

    @property
    def regions_alone(self) -> int:
        """Regions whose chunks ran one after the other because the pool was taken."""
        return int(self._words[_ALONE // 8])

    @property
    def workers(self) -> int:
        """Worker threads there are; they start with the first region that wants them."""
        return int(self._words[_STARTED // 8])

    def parallel_for(self, kernel: int, ptrs: int, desc: int, count: int, chunk: int) -> None:
        """Run a kernel over [0, count) in chunks, from Python; all pointers are addresses.

        Lets go of the GIL. Programs call the native function itself.
        """
        _PARALLEL_FOR(self.parallel_for_address)(kernel, ptrs, desc, count, chunk)

    def _start(self) -> None:
        """Start the workers that are wanted. Called from native code; must not raise."""
        try:
            # Taken by another thread, or by this one further out: go on with what there is.
            if not self._lock.acquire(blocking=False):
                return
            try:
                self._start_missing()
            finally:
                self._lock.release()
        except KeyboardInterrupt:
            _thread.interrupt_main()  # raised again where Python code runs next

    def _start_missing(self) -> None:
        number = 1
        while not self._closed and number <= self._words[_LIMIT // 8]:
            thread = self._threads.get(number)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(
                    target=self._work, args=(number,), name=f"mgefn-{number}", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no more threads to be had, or the interpreter is ending
                    self._words[_LIMIT // 8] = number - 1
                    return
                self._threads[number] = thread
            self._words[_STARTED // 8] = number
            number += 1

    def _work(self, number: int) -> None:
        if hasattr(signal, "pthread_sigmask"):
            # Signals belong to threads that return to Python; here they would only wake a sleeper,
            # so the worker can do without.
            with contextlib.suppress(MemoryError):
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._worker(number)

    def resize(self, threads: int) -> None:
        """Have `threads` threads work, callers included; those too many end before this returns."""
        with self._lock:
            if not self._closed:
                self._end_surplus(int(self._words[_LIMIT // 8]), None)  # left by an interrupt
                self._end_surplus(threads - 1, None)

    def _end_surplus(self, limit: int, timeout: float | None) -> None:
        """Set LIMIT and wait for the workers above it, each at most `timeout` seconds."""
        self._words[_STARTED // 8] = min(limit, self.workers)
        self._set_limit(limit)
        try:
            for number in sorted(self._threads, reverse=True):
                if number > limit:
                    self._threads[number].join(timeout)
                    del self._threads[number]
        finally:
            self._words[_ENDING // 8] = 0

    def close(self) -> None:
        """End all workers; regions run on their callers from then on."""
        with self._lock:
            self._closed = True
            self._end_surplus(0, _JOIN_SECONDS)

    # A fork copies only the thread that asks for it. The workers end before it, which takes some
    # tens of microseconds, and start again at the next region on either side: so no worker is
    # inside a lock or a kernel meanwhile, and Python does not warn of a fork with threads.

    def before_fork(self) -> None:
        # Bounded, because whoever holds the lock may wait for a worker in a long kernel.
        self._fork_has_lock = self._lock.acquire(timeout=_JOIN_SECONDS)
        if self._fork_has_lock:
            self._end_surplus(0, _JOIN_SECONDS)

    def after_fork_in_parent(self) -> None:
        if self._fork_has_lock:
            if not self._closed:
                self._words[_LIMIT // 8] = thread_count() - 1
            self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._threads = {}
        for offset in (_TICKET, _PENDING, _LOCK, _SLEEPERS, _STARTED, _ENDING):
            self._words[offset // 8] = 0
        self._words[_SEMAPHORE // 8] = self._system.semaphore()
        self._words[_LIMIT // 8] = 0 if self._closed else thread_count() - 1


_PARALLEL_FOR = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


def _spins(spin: Callable[[int], None]) -> int:
    """Rounds that make SPIN_SECONDS; the least of a few measurements is the undisturbed one."""
    rounds = 1000
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter()
        spin(rounds)
        best = min(best, time.perf_counter() - begin)
    return max(16, min(1 << 20, int(rounds * SPIN_SECONDS / best)))


_pool: Pool | None = None
_making = forks.lock()


def is_made() -> bool:
    """Is there a pool, so that its code is there too?"""
    return _pool is not None


def pool() -> Pool:
    """The pool of this process."""
    global _pool
    if _pool is None:
        with _making:
            if _pool is None:
                made = Pool()
                atexit.register(made.close)
                _pool = made
    return _pool


def _num_threads_changed(everywhere: bool) -> None:
    if _pool is not None:
        _pool.resize(thread_count())


hooks["num_threads"] = _num_threads_changed


def _before_fork() -> None:
    if _pool is not None:
        _pool.before_fork()


def _after_fork_in_parent() -> None:
    if _pool is not None:
        _pool.after_fork_in_parent()


def _after_fork_in_child() -> None:
    if _pool is not None:
        _pool.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
