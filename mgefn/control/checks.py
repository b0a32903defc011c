"""checkify: run-time checks inside transformed functions, turned into a value that is returned.

`check_p` is a check in a program. Evaluated as it is, it raises. `checkify` traces a function and
reads its program with a `_Checker`, which carries an error code along: 0, or the number of the
first check that failed, counted from 1 in the list of the program's `Site`s. Every program that an
equation holds is rewritten to give the code of its own checks, with the values for their messages,
before its outputs (`checked`); the code of a loop is part of its carry.

A function with custom derivative or batching rules keeps them: its outputs come from the equation
as it stands, and its checks from its program, run beside it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes, tree
from mgefn.control.branching import cond_p
from mgefn.control.checkpoint import remat_p
from mgefn.control.loops import while_p
from mgefn.control.scan import scan_p
from mgefn.core.array import ConcreteArray, as_array, described, is_arraylike, scalar
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, subjaxprs
from mgefn.core.primitive import Primitive
from mgefn.core.source import current_source, describe, fun_name
from mgefn.errors import ArgumentError, CheckError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.staging import trace, trace_closed
from mgefn.ops.elementwise import (
    convert,
    div_p,
    eq_p,
    gt_p,
    lt_p,
    ne_p,
    or_p,
    rem_p,
    select_n_p,
    stop_gradient_p,
)
from mgefn.ops.indexing import (
    dynamic_slice_p,
    dynamic_update_slice_p,
    gather_p,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
)
from mgefn.ops.reductions import argmax, reduce_or_p
from mgefn.ops.shaping import broadcast_to_shape, concatenate_p, reshape, zeros

user_checks = frozenset({"user"})
nan_checks = frozenset({"nan"})
div_checks = frozenset({"division"})
index_checks = frozenset({"index"})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks
KINDS = all_checks

INT32 = np.dtype(np.int32)


class Site(NamedTuple):
    """A check in a program: its message and where it stands.

    values: the types of the arrays that the message shows, and `structure`, how they were passed.
    """

    kind: str
    text: str
    where: str
    values: tuple[ShapedArray, ...] = ()
    structure: Any = None

    def message(self, values: Sequence[Any]) -> str:
        shown = [ConcreteArray(np.asarray(v)) for v in values]
        if self.structure is not None:
            args, kwargs = tree.unflatten(self.structure, shown)
            text = self.text.format(*args, **kwargs)
        else:
            text = self.text.format(*(v.item() for v in shown)) if shown else self.text
        if self.kind == "user":
            return f"{text} (`check` failed at {self.where})"
        return f"{text}, at {self.where}"


def _code(n: int) -> Array:
    return scalar(n, INT32)


# -- the error as a value -------------------------------------------------------------------------


class Error:
    """What checkify found: a pytree that may be returned from jitted and mapped functions."""

    __slots__ = ("code", "sites", "values")

    def __init__(self, code: Any, values: Sequence[Any], sites: tuple[Site, ...]):
        self.code = code
        self.values = tuple(values)
        self.sites = sites

    def _failures(self) -> list[tuple[tuple[int, ...], Site, list[Any]]]:
        """(place in the batch, check, values for its message) of each example with an error."""
        codes = np.asarray(self.code)
        found = []
        for place in np.ndindex(codes.shape):
            code = int(codes[place])
            if code:
                start = sum(len(s.values) for s in self.sites[: code - 1])
                site = self.sites[code - 1]
                values = self.values[start : start + len(site.values)]
                found.append((place, site, [np.asarray(v)[place] for v in values]))
        return found

    @api_boundary
    def get(self) -> str | None:
        """The message of the first check that failed, or None.

        Of an error with a batch, one line for each example with an error.
        """
        failures = self._failures()
        if not failures:
            return None
        if not self.code.shape:
            ((_, site, values),) = failures
            return site.message(values)
        lines = []
        for place, site, values in failures:
            index = ", ".join(map(str, place))
            lines.append(f"at mapped index {index}: {site.message(values)}")
        return "\n".join(lines)

    @property
    def location(self) -> str | None:
        """The user's line of the first check that failed, such as "train.py:18 (step)", or None."""
        failures = self._failures()
        return failures[0][1].where if failures else None

    @api_boundary
    def throw(self) -> None:
        """Raise CheckError where a check failed."""
        message = self.get()
        if message is not None:
            raise CheckError(message)

    def __repr__(self) -> str:
        if isinstance(self.code, ConcreteArray):
            return f"Error({self.get()})"
        return f"Error(code={self.code!r})"


def _split(children: Iterable[Any]) -> tuple[Any, list[Any]]:
    code, *values = children
    return code, values


tree.register_pytree_node(
    Error,
    lambda e: ((e.code, *e.values), e.sites),
    lambda sites, children: Error(*_split(children), sites),
)

init_error = Error(_code(0), (), ())


# -- a check in a program -------------------------------------------------------------------------

# operands: a code, and the values of all sites; each with `lead` batch dimensions in front.
# params: sites; lead; debug, whether nothing happens without checkify
check_p = Primitive("check", constant=True, weak_result=False, effect=True, moves=True)
check_p.no_rule("transpose", "it has no outputs")


@check_p.def_abstract_eval
def _check_abstract_eval(*avals, **params):
    return ()


@check_p.def_evaluate
def _check_evaluate(args, params):
    if not params["debug"]:
        Error(args[0], args[1:], params["sites"]).throw()
    return ()


@check_p.def_batch_call
def _check_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    args = [to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]
    check_p.bind(*args, **params | {"lead": params["lead"] + 1})
    return [], []


@api_boundary
def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """State that a condition holds when the program runs.

    In a function under `checkify` a failure becomes part of the error that is returned. Elsewhere
    it raises when the check is reached, in compiled programs too.

    Args:
        pred: a boolean scalar.
        msg: what to say when it is False, a format for str.format.
        fmt_args, fmt_kwargs: arrays that the format shows.
        debug: do nothing except under `checkify`.

    Raises:
        CheckError: pred is False, and no checkify is around.
        ArgumentError: pred is no boolean scalar.

    Example:
        >>> mgefn.checkify.check(mnp.array(1) < 0, "got {x}", x=mnp.array(1))
        Traceback (most recent call last):
        mgefn.errors.CheckError: got 1 (`check` failed at ...)
    """
    if not isinstance(msg, str):
        raise ArgumentError(f"check: the message must be a str, got {described(msg)}.")
    if not is_arraylike(pred):
        raise ArgumentError(f"check: needs a boolean scalar, got {described(pred)}.")
    condition = as_array(pred, "check")
    if condition.shape or condition.dtype != np.bool_:
        raise ArgumentError(
            f"check: needs a boolean scalar, got {condition.aval}. Compare, and reduce with all."
        )
    leaves, structure = tree.flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not is_arraylike(x):
            raise ArgumentError(
                f"check: format arguments must be arrays, got {described(x)}. Write it into the "
                "message."
            )
    values = [as_array(x, "check") for x in leaves]
    try:
        msg.format(*[_Blank()] * len(fmt_args), **dict.fromkeys(fmt_kwargs, _Blank()))
    except (IndexError, KeyError, ValueError) as e:
        raise ArgumentError(
            f"check: the format {msg!r} must fit its arguments, got {len(fmt_args)} by position "
            f"and by name {', '.join(fmt_kwargs) or 'none'} ({e}). Pass what it asks for."
        ) from None
    site = Site("user", msg, describe(current_source(2)), tuple(v.aval for v in values), structure)
    code = select_n_p.bind1(condition, _code(1), _code(0))
    check_p.bind(code, *values, sites=(site,), lead=0, debug=bool(debug))


class _Blank:
    """Takes any format, for checking a format before the values are known."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Blank:
        return self

    def __getitem__(self, index: Any) -> _Blank:
        return self


@api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check`, which does nothing except under `checkify`."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


@api_boundary
def check_error(error: Error) -> None:
    """Raise where an error that checkify returned is one; inside checkify, pass it on.

    Args:
        error: what a function under `checkify` returned, also while tracing.

    Raises:
        CheckError: there is an error, and no checkify is around.
    """
    if not isinstance(error, Error):
        raise ArgumentError(
            f"check_error: needs an Error, got {described(error)}. Pass what checkify returned."
        )
    code = as_array(error.code, "check_error")
    check_p.bind(code, *error.values, sites=error.sites, lead=len(code.shape), debug=False)


# -- carrying the error along ---------------------------------------------------------------------


def _any(flags: Any) -> Any:
    axes = tuple(range(len(flags.shape)))
    return reduce_or_p.bind1(flags, axes=axes) if axes else flags


class _Checker:
    """Reads programs and collects the first error of those kinds."""

    def __init__(self, errors: frozenset[str]):
        self.errors = errors
        self.code: Any = _code(0)
        self.values: list[Any] = []
        self.sites: list[Site] = []

    def merge(self, code: Any, values: Sequence[Any], sites: Sequence[Site]) -> None:
        """Take in an error with sites of its own, which comes later."""
        if not sites:
            return
        offset = len(self.sites)
        if offset:
            shifted = code + _code(offset)
            no_new = eq_p.bind1(code, _code(0))
            code = select_n_p.bind1(no_new, shifted, _code(0))
            ok = eq_p.bind1(self.code, _code(0))
            code = select_n_p.bind1(ok, self.code, code)
        self.code = code
        self.values += values
        self.sites += sites

    def fail_if(self, bad: Any, kind: str, text: str, values: Sequence[Any] = ()) -> None:
        arrays = [stop_gradient_p.bind1(v) for v in values]
        where = describe(current_source(2))
        site = Site(kind, text, where, tuple(v.aval for v in arrays))
        self.merge(select_n_p.bind1(bad, _code(0), _code(1)), arrays, (site,))

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The outputs of a program; its errors are taken in."""
        return eval_jaxpr(closed.jaxpr, closed.consts, args, self.step)

    def step(self, eqn: Eqn, ins: list[Any]) -> Sequence[Any]:
        p, params = eqn.primitive, eqn.params
        if p is check_p:
            return self.user_check(ins, params)
        rule = _RULES.get(p)
        if rule is not None:
            return rule(self, ins, params)
        if any(True for _ in subjaxprs(params)):
            return self.held(p, ins, params)
        if "division" in self.errors and (p is div_p or p is rem_p):
            zero = scalar(0, ins[1].dtype)
            self.fail_if(_any(eq_p.bind1(ins[1], zero)), "division", "division by zero")
        if "index" in self.errors:
            find = _INDEXED.get(p)
            if find is not None:
                self.index_check(ins[0].shape, *find(ins, params))
        outs = p.bind(*ins, **params)
        if "nan" in self.errors and p.name not in _MOVES:
            for o in outs:
                if dtypes.is_inexact(o.dtype):
                    x = stop_gradient_p.bind1(o)
                    self.fail_if(
                        _any(ne_p.bind1(x, x)), "nan", f"nan generated by primitive: {p.name}"
                    )
        return outs

    def user_check(self, ins: list[Any], params: dict[str, Any]) -> Sequence[Any]:
        sites, lead = params["sites"], params["lead"]
        if not any(s.kind in self.errors for s in sites):
            return check_p.bind(*ins, **params)
        code, *values = ins
        values = [stop_gradient_p.bind1(v) for v in values]
        if lead:
            # The first failing example speaks for the batch.
            n = math.prod(code.shape)
            if n == 0:
                return ()
            flat = reshape(code, (n,))
            first = argmax(ne_p.bind1(flat, _code(0)))
            code = flat[first]
            values = [reshape(v, (n, *v.shape[lead:]))[first] for v in values]
        self.merge(code, values, sites)
        return ()

    def index_check(
        self, shape: tuple[int, ...], indices: Any, highest: Any, axes: Any, sizes: Any
    ) -> None:
        """Fail where an index lies outside [0, highest]; the others say it in the user's terms.

        indices: any shape with one column for each indexed axis at the end.
        """
        if indices.size == 0:
            return
        rows = reshape(indices, (-1, len(axes)))
        top = broadcast_to_shape(as_array(np.asarray(highest, indices.dtype), "check"), rows.shape)
        zero = scalar(0, indices.dtype)
        bad = gt_p.bind1(rows, top)
        if indices.dtype.kind == "i":
            bad = or_p.bind1(bad, lt_p.bind1(rows, zero))
        flat = reshape(bad, (-1,))
        first = argmax(flat)
        index = reshape(rows, (-1,))[first]
        column = first % scalar(len(axes), first.dtype)
        axis = as_array(np.asarray(axes, INT32), "check")[column]
        size = as_array(np.asarray(sizes, INT32), "check")[column]
        self.fail_if(
            _any(flat),
            "index",
            f"out-of-bounds indexing for array of shape {shape}: index {{0}} is out of bounds for "
            "axis {1} with size {2}",
            [index, axis, size],
        )

    def held(self, p: Primitive, ins: list[Any], params: dict[str, Any]) -> Sequence[Any]:
        """An equation that holds programs, by what it is: a call, or a function with rules."""
        if p is jit_p or p is remat_p:
            pushed, sites = checked(params["jaxpr"], self.errors)
            if not sites:
                return p.bind(*ins, **params)
            outs = p.bind(*ins, **params | {"jaxpr": pushed})
            return self.after(outs, sites)
        closed = p.inlined(params) if p.inlined is not None else None
        if closed is None:
            return p.bind(*ins, **params)
        pushed, sites = checked(closed, self.errors)
        if not sites:
            return p.bind(*ins, **params)
        beside = [stop_gradient_p.bind1(x) for x in ins]
        error = jit_p.bind(*beside, jaxpr=_only(pushed, _width(sites)), name=p.name, inline=False)
        self.after(error, sites)
        return p.bind(*ins, **params | {"jaxpr": _without_checks(closed, self.errors)})

    def after(self, outs: Sequence[Any], sites: Sequence[Site]) -> Sequence[Any]:
        """Take in the error that a program gives before its outputs."""
        n = _width(sites)
        self.merge(outs[0], outs[1:n], sites)
        return outs[n:]


def _width(sites: Sequence[Site]) -> int:
    """How many arrays an error with these sites is."""
    return 1 + sum(len(s.values) for s in sites)


def _avals(sites: Sequence[Site]) -> list[ShapedArray]:
    return [ShapedArray((), INT32), *(a.strong() for s in sites for a in s.values)]


def _nothing(sites: Sequence[Site]) -> list[Any]:
    return [zeros(a) for a in _avals(sites)]


def checked(closed: ClosedJaxpr, errors: frozenset[str]) -> tuple[ClosedJaxpr, tuple[Site, ...]]:
    """The program that gives its error before its outputs, and what its codes mean.

    Without any check in it the program is returned as it is.
    """

    def make() -> tuple[ClosedJaxpr, tuple[Site, ...]]:
        found: list[Site] = []

        def fun(*xs: Any) -> list[Any]:
            checker = _Checker(errors)
            outs = checker.run(closed, xs)
            found[:] = checker.sites
            return [checker.code, *checker.values, *outs]

        pushed = trace_closed(fun, closed.in_avals, "checkify", closed.jaxpr.name)
        return (pushed, tuple(found)) if found else (closed, ())

    return closed.derive(("checkify", errors), make)


def _only(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """The program of the first n outputs."""
    j = closed.jaxpr
    return ClosedJaxpr(
        Jaxpr(j.in_binders, j.eqns, j.outs[:n], j.const_binders, j.name), closed.consts
    )


def _without_checks(closed: ClosedJaxpr, errors: frozenset[str]) -> ClosedJaxpr:
    """The program, and those it holds, without the checks that are taken in elsewhere."""

    def rebuilt(value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return _without_checks(value, errors)
        if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
            return tuple(map(rebuilt, value))
        return value

    def make() -> ClosedJaxpr:
        j = closed.jaxpr
        eqns = []
        for e in j.eqns:
            if e.primitive is check_p and any(s.kind in errors for s in e.params["sites"]):
                continue
            if any(True for _ in subjaxprs(e.params)):
                e = e.replace(params={k: rebuilt(v) for k, v in e.params.items()})
            eqns.append(e)
        return ClosedJaxpr(
            Jaxpr(j.in_binders, eqns, j.outs, j.const_binders, j.name), closed.consts
        )

    return closed.derive(("without checks", errors), make)


def _first(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Of two errors with the same sites, the one that came first."""
    ok = eq_p.bind1(old[0], _code(0))
    return [select_n_p.bind1(ok, a, b) for a, b in zip(old, new, strict=True)]


# -- control flow ---------------------------------------------------------------------------------


def _cond(checker: _Checker, ins: list[Any], params: dict[str, Any]) -> Sequence[Any]:
    branches, errors = params["branches"], checker.errors
    pairs = [checked(b, errors) for b in branches]
    sites = [s for _, own in pairs for s in own]
    if not sites:
        return cond_p.bind(*ins, **params)
    new = []
    before = 0
    for (pushed, own), branch in zip(pairs, branches, strict=True):
        new.append(_padded(pushed, own, sites, before, branch))
        before += len(own)
    return checker.after(cond_p.bind(*ins, branches=tuple(new)), sites)


def _padded(
    pushed: ClosedJaxpr,
    own: Sequence[Site],
    sites: Sequence[Site],
    before: int,
    branch: ClosedJaxpr,
) -> ClosedJaxpr:
    """A branch that gives the error of all branches; its own sites come after `before` others."""

    def fun(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(pushed.jaxpr, pushed.consts, xs)
        n = _width(own) if own else 0
        error, rest = outs[:n], outs[n:]
        checker = _Checker(KINDS)
        checker.merge(_code(0), _nothing(sites[:before])[1:], sites[:before])
        if own:
            checker.merge(error[0], error[1:], own)
        after = sites[before + len(own) :]
        checker.merge(_code(0), _nothing(after)[1:], after)
        return [checker.code, *checker.values, *rest]

    return trace_closed(fun, branch.in_avals, "checkify", branch.jaxpr.name)


def _while(checker: _Checker, ins: list[Any], params: dict[str, Any]) -> Sequence[Any]:
    test, of_test = checked(params["cond_jaxpr"], checker.errors)
    body, of_body = checked(params["body_jaxpr"], checker.errors)
    if not of_test and not of_body:
        return while_p.bind(*ins, **params)
    n, m = params["cond_nconsts"], params["body_nconsts"]
    test_consts, body_consts, carry = ins[:n], ins[n : n + m], ins[n + m :]
    width, skipped = _width(of_body), _width(of_test) if of_test else 0
    all_sites = (*of_body, *of_test)
    total = _width(all_sites)

    def tested(consts: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], Any]:
        outs = eval_jaxpr(test.jaxpr, test.consts, [*consts, *values])
        return outs[:skipped], outs[-1]

    def step_error(body_error: Sequence[Any], test_error: Sequence[Any]) -> list[Any]:
        both = _Checker(KINDS)
        both.merge(body_error[0], body_error[1:], of_body)
        if of_test:
            both.merge(test_error[0], test_error[1:], of_test)
        return [both.code, *both.values]

    def new_test(*xs: Any) -> list[Any]:
        return [tested(xs[:n], xs[n + total :])[1]]

    def new_body(*xs: Any) -> list[Any]:
        # The condition's constants come along, because its checks are made here.
        consts, rest = xs[: n + m], xs[n + m :]
        error, values = rest[:total], rest[total:]
        outs = eval_jaxpr(body.jaxpr, body.consts, [*consts[n:], *values])
        k = width if of_body else 0
        of_step, new = (outs[:k] if k else _nothing(of_body)), outs[k:]
        found, _ = tested(consts[:n], new)
        return [*_first(error, step_error(of_step, found)), *new]

    carry_avals = params["body_jaxpr"].in_avals[m:]
    const_avals = [*params["cond_jaxpr"].in_avals[:n], *params["body_jaxpr"].in_avals[:m]]
    error_avals = _avals(all_sites)
    name = params["body_jaxpr"].jaxpr.name
    cond_jaxpr = trace_closed(
        new_test, [*const_avals[:n], *error_avals, *carry_avals], "checkify", name
    )
    body_jaxpr = trace_closed(
        new_body, [*const_avals, *error_avals, *carry_avals], "checkify", name
    )
    found, _ = tested(test_consts, carry)
    start = step_error(_nothing(of_body), found)
    outs = while_p.bind(
        *test_consts, *test_consts, *body_consts, *start, *carry,
        cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=n, body_nconsts=n + m,
    )  # fmt: skip
    return checker.after(outs, all_sites)


def _scan(checker: _Checker, ins: list[Any], params: dict[str, Any]) -> Sequence[Any]:
    body, sites = checked(params["jaxpr"], checker.errors)
    if not sites:
        return scan_p.bind(*ins, **params)
    n, k, width = params["num_consts"], params["num_carry"], _width(sites)

    def fun(*xs: Any) -> list[Any]:
        consts, error, rest = xs[:n], xs[n : n + width], xs[n + width :]
        outs = eval_jaxpr(body.jaxpr, body.consts, [*consts, *rest])
        return [*_first(error, outs[:width]), *outs[width:]]

    avals = params["jaxpr"].in_avals
    jaxpr = trace_closed(
        fun, [*avals[:n], *_avals(sites), *avals[n:]], "checkify", params["jaxpr"].jaxpr.name
    )
    outs = scan_p.bind(
        *ins[:n], *_nothing(sites), *ins[n:], **params | {"jaxpr": jaxpr, "num_carry": k + width}
    )
    return checker.after(outs, sites)


_RULES = {cond_p: _cond, while_p: _while, scan_p: _scan}

# -- what the automatic checks look at ------------------------------------------------------------

# Operations that move or choose elements and make none.
_MOVES = frozenset(
    (
        "broadcast_in_dim", "reshape", "transpose", "rev", "concatenate", "pad", "slice",
        "copysign", "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "select_n", "neg",
        "real", "imag", "conj", "complex", "convert_element_type", "bitcast_convert_type",
        "stop_gradient", "name", "optimization_barrier", "take_along", "put_along", "sort",
        "top_k", "clamp",
    )
)  # fmt: skip


def _gather_indices(ins: list[Any], params: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    x, indices = ins
    axes = params["dimension_numbers"].start_index_map
    sizes = [x.shape[d] for d in axes]
    windows = [params["slice_sizes"][d] for d in axes]
    return indices, [s - w for s, w in zip(sizes, windows, strict=True)], axes, sizes


def _scatter_indices(ins: list[Any], params: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    x, indices, updates = ins[0], ins[1], ins[2]
    dn = params["dimension_numbers"]
    axes = dn.scatter_dims_to_operand_dims
    left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    windowed = iter(updates.shape[d] for d in dn.update_window_dims)
    windows = [1 if d in left_out else next(windowed) for d in range(len(x.shape))]
    sizes = [x.shape[d] for d in axes]
    return indices, [s - windows[d] for s, d in zip(sizes, axes, strict=True)], axes, sizes


def _slice_indices(ins: list[Any], params: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    x, starts = ins[0], ins[1:]
    sizes = params["slice_sizes"]
    return _starts(x, starts, sizes)


def _update_indices(ins: list[Any], params: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    x, update, starts = ins[0], ins[1], ins[2:]
    return _starts(x, starts, update.shape)


def _starts(x: Any, starts: Sequence[Any], windows: Sequence[int]) -> tuple[Any, Any, Any, Any]:
    axes = tuple(range(len(x.shape)))
    highest = [s - w for s, w in zip(x.shape, windows, strict=True)]
    if not axes:
        return zeros(ShapedArray((0,), INT32)), highest, axes, x.shape
    # One dtype for all: each start has its own.
    parts = [convert(reshape(s, (1,)), np.dtype(np.int64)) for s in starts]
    return concatenate_p.bind1(*parts, dimension=0), highest, axes, x.shape


_INDEXED: dict[Primitive, Callable[..., Any]] = {
    gather_p: _gather_indices,
    dynamic_slice_p: _slice_indices,
    dynamic_update_slice_p: _update_indices,
    **dict.fromkeys(
        (scatter_p, scatter_add_p, scatter_mul_p, scatter_min_p, scatter_max_p), _scatter_indices
    ),
}


# -- checkify -------------------------------------------------------------------------------------


@api_boundary
def checkify(
    f: Callable[..., Any], errors: frozenset[str] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that returns the first failed check beside the output of `f`.

    Args:
        f: a function of pytrees of arrays. It is traced, so its control flow must be that of
            `mgefn.lax`.
        errors: which checks: `user_checks`, those that f states with `check`; `nan_checks`,
            `div_checks` and `index_checks`, made for every operation; or a union of them, such as
            `float_checks` (NaN and division) and `all_checks`.

    Returns:
        A function of the arguments of f that returns (error, output). error.get() is the message or
        None, error.throw() raises it. May be jitted, mapped and differentiated.

    Example:
        >>> def f(x):
        ...     mgefn.checkify.check(x > 0, "x must be positive, got {}", x)
        ...     return mnp.log(x)
        >>> error, y = mgefn.jit(mgefn.checkify.checkify(f))(-1.0)
        >>> error.get()
        'x must be positive, got -1.0 (`check` failed at ... (f))'
    """
    if not callable(f):
        raise ArgumentError(f"checkify: needs a function, got {described(f)}. Pass the function.")
    try:
        kinds = frozenset(errors)
        unknown = kinds - KINDS
    except TypeError:
        kinds, unknown = frozenset(), frozenset({errors})
    if unknown:
        raise ArgumentError(
            f"checkify: errors must be a union of user_checks, nan_checks, div_checks and "
            f"index_checks, got {errors!r}."
        )
    about = f"checkify({fun_name(f)})"

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def checked_f(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, in_tree = tree.flatten((args, kwargs))
        arrays = [as_array(x, about) for x in leaves]
        out_tree: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            new_args, new_kwargs = tree.unflatten(in_tree, xs)
            outs, structure = tree.flatten(f(*new_args, **new_kwargs))
            out_tree[:] = [structure]
            for o in outs:
                if not is_arraylike(o):
                    raise ArgumentError(
                        f"{about}: the function must return arrays, got {described(o)}. Compute it "
                        "outside."
                    )
            return [as_array(o, about) for o in outs]

        closed, captured = trace(flat, [a.aval for a in arrays], about, fun_name(f))
        checker = _Checker(kinds)
        outs = checker.run(closed, [*captured, *arrays])
        error = Error(checker.code, checker.values, tuple(checker.sites))
        return error, tree.unflatten(out_tree[0], outs)

    return api_boundary(checked_f)


__all__ = [
    "Error",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
