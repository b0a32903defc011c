"""Settings for a block, and what looks at the whole process."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.control import programs
from mgefn.errors import ArgumentError, LeakedTracerError


def test_enable_x64_holds_in_the_block():
    f = mgefn.jit(lambda: mnp.ones(2))
    with mgefn.enable_x64():
        assert f().dtype == np.float64
        with mgefn.enable_x64(False):
            assert f().dtype == np.float32
    assert f().dtype == np.float32


def test_log_compiles_says_what_is_traced(capsys):
    f = mgefn.jit(lambda x: x + 1)
    f(1.0)
    assert capsys.readouterr().err == ""
    with mgefn.log_compiles():
        f(mnp.ones(3))
        f(mnp.ones(3))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("jit(<lambda>): traced again because x is f32[3], was")
    assert lines[0].endswith(" ms.")


def test_default_device():
    with mgefn.default_device(mgefn.devices()[0]), mgefn.default_device("cpu"):
        assert mnp.ones(2).sum() == 2
    with pytest.raises(ArgumentError, match="needs one of cpu:0 or a GPU, got 'tpu'"):
        mgefn.default_device("tpu")


def test_named_scopes_nest_and_show():
    @mgefn.named_scope("outer")
    def f(x):
        y = mnp.sin(x)
        with mgefn.named_scope("inner"):
            return mnp.exp(y)

    for g in (f, mgefn.grad(f)):
        text = mgefn.jit(g).lower(1.0).compile().as_text()
        assert "(f) in outer\n" in text
        assert "(f) in outer/inner" in text
    with pytest.raises(ArgumentError, match="the name must be a str"):
        mgefn.named_scope(3)


def test_checking_leaks_finds_what_outlives_its_function():
    kept = []

    def keep(x):
        kept.append(x * 2)
        return x

    with pytest.raises(LeakedTracerError, match=r"1 traced value outlived its .*test_settings.py"):
        with mgefn.checking_leaks():
            mgefn.jit(keep)(1.0)
    for transform, argument in ((mgefn.grad, 1.0), (mgefn.vmap, mnp.ones(3))):
        kept.clear()
        with pytest.raises(LeakedTracerError), mgefn.checking_leaks():
            transform(keep)(argument)
    kept.clear()
    with mgefn.checking_leaks(), mgefn.checking_leaks(False):
        mgefn.jit(mgefn.grad(mgefn.jit(lambda x: mnp.sin(x) * x)))(1.0)
        mgefn.vmap(mgefn.grad(lambda x: mnp.where(x > 0, x, 0.0)))(mnp.ones(3))
        mgefn.lax.scan(lambda c, x: (c + x, c), 0.0, mnp.ones(3))


def test_clear_caches_makes_every_function_trace_again():
    count = []

    def f(x):
        count.append(1)
        return x + 1

    functions = (mgefn.jit(f), mgefn.checkpoint(f))
    for function in functions:
        count.clear()
        function(1.0)
        once = len(count)
        function(1.0)
        mgefn.clear_caches()
        function(1.0)
        assert len(count) == 2 * once
    mgefn.lax.fori_loop(0, 3, lambda i, x: x + i, 0)
    mgefn.clear_caches()
    assert not programs._kept


def test_live_arrays():
    kept = mnp.ones((7, 11))
    assert any(a is kept for a in mgefn.live_arrays())
    assert any(a is kept for a in mgefn.live_arrays("cpu"))
    assert mgefn.live_arrays("gpu") == []


def test_small_things():
    mgefn.effects_barrier()
    assert str(mgefn.typeof(mnp.ones((2, 3)))) == "f32[2,3]"
    assert mgefn.typeof(1.0).weak_type
    assert mgefn.typeof(mnp.ones(2)) == mgefn.core.ShapedArray((2,), np.dtype("float32"))
    assert (mgefn.local_device_count(), mgefn.process_index(), mgefn.process_count()) == (1, 0, 1)
    text = mgefn.print_environment_info(return_string=True)
    assert f"mgefn: {mgefn.__version__}" in text
    assert mgefn.config.read("jax_enable_x64") is False
    with pytest.raises(ArgumentError, match=r"config.read: needs the name of a setting"):
        mgefn.config.read("nothing")


def test_hvp():
    def f(x, scale):
        return (x["a"] ** 3).sum() * scale + x["a"].sum() * x["b"]

    x = {"a": mnp.array([1.0, 2.0]), "b": mnp.array(3.0)}
    v = {"a": mnp.array([1.0, -1.0]), "b": mnp.array(2.0)}
    got = mgefn.hvp(f)(x, 2.0, v)
    np.testing.assert_allclose(got["a"], [14.0, -22.0])
    np.testing.assert_allclose(got["b"], 0.0)
    np.testing.assert_allclose(mgefn.jit(mgefn.hvp(f, 0))(x, 2.0, v)["a"], [14.0, -22.0])
    with pytest.raises(
        ArgumentError, match="needs the arguments of the function and then a vector"
    ):
        mgefn.hvp(f)(x)


def test_stages():
    wrapped = mgefn.jit(lambda x, y: {"z": x @ y})
    assert isinstance(wrapped, mgefn.stages.Wrapped)
    traced = wrapped.trace(mnp.ones((2, 3)), mgefn.ShapeDtypeStruct((3,), "float32"))
    assert isinstance(traced, mgefn.stages.Traced)
    assert [e.primitive.name for e in traced.jaxpr.eqns] == ["dot_general"]
    assert str(traced.in_avals[0][0]) == "f32[2,3]"
    assert str(traced.out_avals["z"]) == "f32[2]"
    lowered = traced.lower()
    assert isinstance(lowered, mgefn.stages.Lowered)
    compiled = lowered.compile()
    assert isinstance(compiled, mgefn.stages.Compiled)
    assert compiled.out_info["z"].shape == (2,)
    assert compiled.args_info[0][1].shape == (3,)
    np.testing.assert_array_equal(compiled(mnp.ones((2, 3)), mnp.ones(3))["z"], [3.0, 3.0])


def test_jaxprs_can_be_read():
    from mgefn import core

    closed = mgefn.make_jaxpr(lambda x: mnp.sin(x) * 2)(1.0)
    assert isinstance(closed, core.ClosedJaxpr)
    assert isinstance(closed.jaxpr, core.Jaxpr)
    assert all(isinstance(e, core.JaxprEqn) for e in closed.eqns)
    assert isinstance(closed.eqns[1].invars[1], core.Literal)
    (y,) = core.eval_jaxpr(closed.jaxpr, closed.consts, [mnp.array(1.0)])
    assert core.jaxpr_as_fun(closed)(mnp.array(1.0)) == [y]
    seen = []
    mgefn.jit(lambda x: seen.append(isinstance(x, core.Tracer)) or x)(1.0)
    assert seen == [True]


def test_single_device_shardings():
    from mgefn.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

    mesh = Mesh(np.array(mgefn.devices()).reshape(1, 1), ("data", "model"))
    assert mesh.shape == {"data": 1, "model": 1}
    sharding = NamedSharding(mesh, mgefn.P("data", None))
    assert sharding == mgefn.NamedSharding(mesh, PartitionSpec("data", None))
    assert hash(sharding) == hash(NamedSharding(mesh, PartitionSpec("data", None)))
    assert sharding.is_fully_replicated
    assert sharding.shard_shape((4, 2)) == (4, 2)
    assert sharding.device_set == SingleDeviceSharding().device_set == set(mgefn.devices())
    np.testing.assert_array_equal(mgefn.device_put(np.eye(2), sharding), np.eye(2))
    with pytest.raises(ArgumentError, match="names the axis 'x', and the mesh has"):
        NamedSharding(mesh, PartitionSpec("x"))
    with pytest.raises(ArgumentError, match="needs one name for each of the 2 axes"):
        Mesh(np.array(mgefn.devices()).reshape(1, 1), ("data",))


def test_names_that_ported_programs_import():
    from mgefn.experimental import checkify, io_callback  # noqa: F401
    from mgefn.typing import Array, ArrayLike, DTypeLike  # noqa: F401

    assert isinstance(mnp.ones(2), ArrayLike)
    assert isinstance(1.0, ArrayLike)
    assert not isinstance("a", ArrayLike)
    assert isinstance(mnp.ones(2), Array)
    assert set(dir(mgefn)) >= {"checkify", "hvp", "named_scope", "P"}
