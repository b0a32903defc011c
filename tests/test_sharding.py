"""Programs that say where their arrays are: checked, and the same numbers on one device."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.errors import ArgumentError, ShapeError, TreeError, UnboundAxisError
from mgefn.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    get_mesh,
)

P = PartitionSpec
MESH = mgefn.make_mesh((1, 1), ("data", "model"))
X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


# -- devices --------------------------------------------------------------------------------------


def test_arrays_lie_on_device_objects():
    (cpu,) = mgefn.devices()
    x = mnp.asarray(X)
    assert x.device is cpu and x.devices() == {cpu} and cpu in x.devices()
    assert isinstance(cpu, mgefn.Device)
    assert (cpu.platform, cpu.id, cpu.process_index, str(cpu)) == ("cpu", 0, 0, "cpu:0")
    info = mnp.__array_namespace_info__()
    assert info.default_device() is cpu and info.devices() == mgefn.devices()
    seen = []
    mgefn.jit(lambda v: seen.append((v.device, v.devices(), v.sharding.device_set)) or v)(x)
    assert seen == [(cpu, {cpu}, {cpu})]


def test_a_device_has_one_object():
    (cpu,) = mgefn.devices()
    assert pickle.loads(pickle.dumps(cpu)) is cpu
    assert copy.deepcopy(cpu) is cpu
    assert pickle.loads(pickle.dumps(NamedSharding(MESH, P("data")))) == NamedSharding(
        MESH, P("data")
    )


@pytest.mark.parametrize(
    "place",
    [None, "cpu", mgefn.devices()[0], SingleDeviceSharding(), NamedSharding(MESH, P("data"))],
    ids=["none", "name", "device", "single", "named"],
)
def test_every_word_for_the_place_is_taken(place: Any):
    for x in (
        mgefn.device_put(X, place),
        mnp.asarray(X, device=place),
        mnp.zeros((2, 3), device=place),
        mnp.asarray(X).to_device(mgefn.devices()[0] if place is None else place),
    ):
        assert x.shape == (2, 3) and x.device is mgefn.devices()[0]


@pytest.mark.parametrize("place", ["tpu", 0, mgefn.Device("tpu", 0), "cpu:1"])
def test_places_that_are_not_there(place: Any):
    for put in (
        lambda: mgefn.device_put(X, place),
        lambda: mnp.zeros(3, device=place),
        lambda: mnp.asarray(X).to_device(place),
    ):
        with pytest.raises(ArgumentError, match=r"device must be one of mgefn\.devices\(\)"):
            put()


# -- meshes and shardings -------------------------------------------------------------------------


def test_mesh():
    assert MESH == Mesh(np.array(mgefn.devices()).reshape(1, 1), ("data", "model"))
    assert dict(MESH.shape) == {"data": 1, "model": 1}
    assert (MESH.size, MESH.axis_sizes, MESH.empty) == (1, (1, 1), False)
    assert MESH.shape_tuple == (("data", 1), ("model", 1))
    assert MESH.axis_types == (AxisType.Auto,) * 2
    assert MESH.device_ids.tolist() == [[0]] and MESH.local_devices == mgefn.devices()
    assert MESH.local_mesh is MESH and not MESH.is_multi_process
    explicit = mgefn.make_mesh((1, 1), ("data", "model"), (AxisType.Explicit,) * 2)
    assert explicit != MESH and hash(explicit) != hash(MESH)
    assert mgefn.make_mesh((1,), ("i",), devices=mgefn.devices()).axis_names == ("i",)


def test_mesh_messages():
    with pytest.raises(ArgumentError, match=r"make_mesh: a mesh of \(2, 1\) needs 2 devices"):
        mgefn.make_mesh((2, 1), ("data", "model"))
    with pytest.raises(ArgumentError, match="one name for each size"):
        mgefn.make_mesh((1, 1), ("data",))
    with pytest.raises(ArgumentError, match="one AxisType for each of the 1 axes"):
        mgefn.make_mesh((1,), ("data",), (AxisType.Auto, AxisType.Auto))
    with pytest.raises(ArgumentError, match="names a device twice"):
        Mesh(mgefn.devices() * 2, ("data",))
    with pytest.raises(ArgumentError, match="needs devices"):
        Mesh(["cpu"], ("data",))
    with pytest.raises(ArgumentError, match="names an axis twice"):
        NamedSharding(MESH, P("data", "data"))
    with pytest.raises(ArgumentError, match="needs a Mesh and a PartitionSpec"):
        NamedSharding(MESH, "data")  # type: ignore[arg-type]  # refused


def test_shardings():
    rows = NamedSharding(MESH, P("data"))
    assert rows.shard_shape((4, 2)) == (4, 2)
    assert rows.is_fully_replicated and rows.is_fully_addressable and rows.num_devices == 1
    assert rows.is_equivalent_to(NamedSharding(MESH, P()), 2)
    assert rows != NamedSharding(MESH, P()) and rows.memory_kind == "device"
    assert rows.addressable_devices == {mgefn.devices()[0]}
    whole = (slice(None), slice(None))
    assert rows.devices_indices_map((4, 2)) == {mgefn.devices()[0]: whole}
    assert NamedSharding(MESH, P(("data", "model"))).shard_shape((3,)) == (3,)
    with pytest.raises(ShapeError, match="has 2 entries for an array of rank 1"):
        NamedSharding(MESH, P("data", None)).shard_shape((4,))


def test_put_arrays_remember_their_sharding():
    rows = NamedSharding(MESH, P("data"))
    tree = {"w": X, "b": np.zeros(3)}
    put = mgefn.device_put(tree, {"w": rows, "b": None})
    assert put["w"].sharding == rows and put["w"].sharding.spec == P("data")
    assert put["b"].sharding == SingleDeviceSharding()
    assert put["w"].is_fully_replicated and put["w"].is_fully_addressable
    (shard,) = put["w"].addressable_shards
    np.testing.assert_array_equal(shard.data, X)
    assert shard.device is mgefn.devices()[0] and shard.index == (slice(None), slice(None))
    assert put["w"].addressable_data(0).shape == (2, 3)
    assert len(put["w"].global_shards) == 1
    np.testing.assert_array_equal(put["w"] + 1, X + 1)
    with pytest.raises(ShapeError, match=r"device_put: .* for an array of rank 1"):
        mgefn.device_put(np.zeros(3), NamedSharding(MESH, P("data", "model")))
    with pytest.raises(TreeError, match="device_put must be a prefix"):
        mgefn.device_put(tree, {"w": rows})


def test_memory_is_not_shared_with_what_was_put():
    source = X.copy()
    x = mgefn.device_put(source, NamedSharding(MESH, P("data")))
    source[:] = -1
    np.testing.assert_array_equal(x, X)


# -- the mesh of the context ----------------------------------------------------------------------


def test_the_mesh_of_the_context():
    assert get_mesh().empty and get_mesh().axis_names == ()
    with pytest.raises(ArgumentError, match="a PartitionSpec needs a mesh"):
        mgefn.device_put(X, P("data"))
    with MESH:
        assert get_mesh() is MESH
        assert mgefn.device_put(X, P("data")).sharding == NamedSharding(MESH, P("data"))
    with mgefn.set_mesh(MESH) as mesh:
        assert mesh is MESH and get_mesh() is MESH
        with pytest.raises(ArgumentError, match="names the axis 'rows'"):
            mgefn.device_put(X, P("rows"))
    mgefn.set_mesh(MESH)
    assert get_mesh() is MESH
    mgefn.set_mesh(None)
    assert get_mesh().empty
    with pytest.raises(ArgumentError, match="set_mesh: needs a Mesh"):
        mgefn.set_mesh("data")  # type: ignore[arg-type]  # refused


def test_constraints_are_the_identity_with_its_derivative():
    rows = NamedSharding(MESH, P("data", "model"))

    def f(x):
        y = lax.with_sharding_constraint({"y": mnp.sin(x)}, rows)["y"]
        return mgefn.reshard(y, rows).sum()

    for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.grad(mgefn.jit(f))):
        np.testing.assert_allclose(g(X), np.cos(X), rtol=1e-6)
    constrained = mgefn.vmap(lambda v: lax.with_sharding_constraint(v, NamedSharding(MESH, P())))
    np.testing.assert_array_equal(constrained(X), X)
    with pytest.raises(ShapeError, match=r"with_sharding_constraint: .* rank 0"):
        lax.with_sharding_constraint(mnp.float32(1), NamedSharding(MESH, P("data")))


# -- jit ------------------------------------------------------------------------------------------


def test_jit_checks_shardings_while_tracing():
    rows, all_ = NamedSharding(MESH, P("data")), NamedSharding(MESH, P())
    traced = []

    @partial(mgefn.jit, in_shardings=(rows, {"w": all_}), out_shardings=(all_, None))
    def step(x, params):
        traced.append(1)
        return x @ params["w"], params

    w = np.ones((3, 2), np.float32)
    for _ in range(3):
        y, params = step(X, {"w": w})
    np.testing.assert_array_equal(y, X @ w)
    assert len(traced) == 1 and params["w"].shape == (3, 2)
    assert mgefn.jit(lambda x: x * 2, out_shardings=all_)(X).shape == (2, 3)
    np.testing.assert_allclose(
        mgefn.grad(mgefn.jit(lambda x: mnp.sum(x**2), in_shardings=rows))(X), 2 * X
    )


def test_jit_shardings_leave_static_arguments_out():
    rows = NamedSharding(MESH, P("data"))
    by_number = mgefn.jit(lambda n, x: x * n, in_shardings=(rows,), static_argnums=0)
    np.testing.assert_array_equal(by_number(3, X), 3 * X)

    @partial(mgefn.jit, in_shardings=(rows,), static_argnames="n", donate_argnums=0)
    def by_name(x, n):
        return x * n

    np.testing.assert_array_equal(by_name(mnp.asarray(X), n=3), 3 * X)
    np.testing.assert_array_equal(by_name(mnp.asarray(X), 3), 3 * X)


def test_jit_sharding_messages():
    rows = NamedSharding(MESH, P("data"))
    with pytest.raises(TreeError, match="in_shardings must be a prefix"):
        mgefn.jit(lambda x: x, in_shardings=(rows, rows))(X)
    with pytest.raises(TreeError, match="out_shardings must be a prefix"):
        mgefn.jit(lambda x: (x, x), out_shardings=(rows,))(X)
    with pytest.raises(ShapeError, match=r"out_shardings: .* rank 0"):
        mgefn.jit(lambda x: x.sum(), out_shardings=rows)(X)
    with pytest.raises(ArgumentError, match="in_shardings: device must be"):
        mgefn.jit(lambda x: x, in_shardings="rows")
    with pytest.raises(ArgumentError, match="a PartitionSpec needs a mesh"):
        mgefn.jit(lambda x: x, in_shardings=P("data"))
    with mgefn.set_mesh(MESH):
        np.testing.assert_array_equal(mgefn.jit(lambda x: x, in_shardings=P("data"))(X), X)


# -- shard_map ------------------------------------------------------------------------------------


def collective(x):
    """Every collective once, over an axis of one device."""
    i = lax.axis_index("data")
    total = lax.psum(x, "data") + lax.pmean(x, ("data", "model")) + lax.pmax(x, "data")
    gathered = lax.all_gather(x, "data").sum(0) + lax.all_gather(x, "data", tiled=True)
    moved = lax.ppermute(x, "data", [(0, 0)]) + lax.psum_scatter(x, "data", tiled=True)
    turned = lax.all_to_all(x, "data", 0, 0, tiled=True)
    return (total + gathered + moved + turned) * (i + lax.axis_size("data"))


def test_collectives_in_shard_map():
    f = mgefn.shard_map(collective, mesh=MESH, in_specs=P("data"), out_specs=P("data"))
    for g in (f, mgefn.jit(f)):
        np.testing.assert_allclose(g(X), 8 * X)
        np.testing.assert_allclose(mgefn.vjp(g, X)[1](mnp.ones((2, 3)))[0], np.full((2, 3), 8))
        np.testing.assert_allclose(mgefn.jvp(g, (X,), (X,))[1], 8 * X)
        np.testing.assert_allclose(mgefn.vmap(g)(np.stack([X, 2 * X]))[1], 16 * X)
    inside = mgefn.shard_map(
        lambda x: mgefn.grad(lambda v: lax.psum(mnp.sum(v**2), "data"))(x),
        mesh=MESH, in_specs=P("data"), out_specs=P("data"),
    )  # fmt: skip
    np.testing.assert_allclose(inside(X), 2 * X)


def test_data_parallel_training_step():
    mesh = mgefn.make_mesh((1,), ("batch",))
    w = np.array([0.5, -1.0, 2.0], np.float32)

    @mgefn.jit
    @mgefn.shard_map(mesh=mesh, in_specs=(P(), P("batch")), out_specs=(P(), P()))
    def step(w, x):
        loss, g = mgefn.value_and_grad(lambda w: mnp.mean((x @ w) ** 2))(w)
        return lax.pmean(loss, "batch"), w - 0.1 * lax.pmean(g, "batch")

    loss, new = step(w, X)
    np.testing.assert_allclose(loss, np.mean((X @ w) ** 2), rtol=1e-6)
    np.testing.assert_allclose(new, w - 0.1 * (2 / 2) * X.T @ (X @ w), rtol=1e-5)


def test_shard_map_of_trees_and_control_flow():
    f = mgefn.shard_map(
        lambda p, x: ({"y": lax.scan(lambda c, v: (c + lax.psum(v, "model"), c), p["b"], x)[0]},),
        mesh=MESH, in_specs=({"b": P()}, P("data", None)), out_specs=({"y": P()},),
    )  # fmt: skip
    ((out),) = f({"b": np.zeros(3, np.float32)}, X)
    np.testing.assert_allclose(out["y"], X.sum(0))


def test_shard_map_arguments():
    with mgefn.set_mesh(MESH):
        f = mgefn.shard_map(lambda x: lax.psum(x, "data"), out_specs=P("data"))
        np.testing.assert_array_equal(f(X), X)
    only = mgefn.shard_map(
        lambda x: lax.psum(x, "data"), mesh=MESH, out_specs=P(), axis_names={"model"}
    )
    with pytest.raises(UnboundAxisError, match="data"):
        only(X)
    with pytest.raises(UnboundAxisError):  # the names end with the function
        lax.psum(1.0, "data")
    from mgefn.experimental.mesh_utils import create_device_mesh
    from mgefn.experimental.shard_map import shard_map

    mesh = Mesh(create_device_mesh((1,)), ("i",))
    np.testing.assert_array_equal(
        shard_map(lambda x: lax.psum(x, "i"), mesh, (P("i"),), P(), check_rep=False)(X), X
    )


def test_shard_map_messages():
    f = partial(mgefn.shard_map, mesh=MESH)
    with pytest.raises(ArgumentError, match="needs a mesh"):
        mgefn.shard_map(lambda x: x, out_specs=P())
    with pytest.raises(ArgumentError, match=r"in_specs: .* names the axis 'rows'"):
        f(lambda x: x, in_specs=P("rows"), out_specs=P())
    with pytest.raises(ArgumentError, match="out_specs must hold PartitionSpecs"):
        f(lambda x: x, out_specs="data")
    with pytest.raises(ArgumentError, match=r"axis_names has \['rows'\]"):
        f(lambda x: x, out_specs=P(), axis_names={"rows"})
    with pytest.raises(ShapeError, match=r"in_specs: .* rank 2"):
        f(lambda x: x, in_specs=P("data", None, None), out_specs=P())(X)
    with pytest.raises(ShapeError, match=r"out_specs: .* rank 0"):
        f(lambda x: x.sum(), in_specs=P("data"), out_specs=P("data"))(X)
    with pytest.raises(TreeError, match="in_specs must be a prefix"):
        f(lambda x: x, in_specs=(P(), P()), out_specs=P())(X)
