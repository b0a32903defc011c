"""Datasets and the datasets made of them."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

import mgefn
from mgefn import data, random
from mgefn.errors import (
    ArgumentError,
    FileFormatError,
    IndexOutOfBoundsError,
    OverflowDTypeError,
    ShapeError,
    TreeError,
)


def test_arrays_and_trees():
    x, y = np.arange(6).reshape(3, 2), np.array([7.0, 8.0, 9.0])
    pairs = data.ArrayDataset(x, y)
    assert [(a.tolist(), b) for a, b in pairs] == [([0, 1], 7), ([2, 3], 8), ([4, 5], 9)]
    assert pairs[-1][1] == 9
    rows = data.TreeDataset({"x": mgefn.numpy.arange(3), "y": [y]})
    assert rows[1] == {"x": 1, "y": [8.0]}
    with pytest.raises(ShapeError, match=r"one length, got shapes \[\[3, 2\], \[2\]\]"):
        data.ArrayDataset(x, y[:2])
    with pytest.raises(ShapeError, match="one length"):
        data.ArrayDataset(1.0)
    with pytest.raises(IndexOutOfBoundsError, match=r"in \[-3, 3\), got 3"):
        pairs[3]
    with pytest.raises(ArgumentError, match=r"an integer, got 1\.5"):
        pairs[1.5]
    assert len(data.ArrayDataset(np.zeros((0, 2)))) == 0


def test_concat_subset_split():
    both = data.ConcatDataset([range(3), [], "ab"])
    assert list(both) == [0, 1, 2, "a", "b"]
    assert both[-1] == "b"
    assert list(data.Subset(both, [4, -5])) == ["b", 0]
    with pytest.raises(IndexOutOfBoundsError, match="got 5"):
        data.Subset(both, [5])
    parts = data.random_split(range(10), [0.5, 0.25, 0.25], random.key(2))
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(i for part in parts for i in part) == list(range(10))
    again = data.random_split(range(10), [6, 2, 2], random.key(2))
    assert list(map(list, parts)) == list(map(list, again))
    with pytest.raises(ArgumentError, match=r"add up to 10, .* got \[5, 6\]"):
        data.random_split(range(10), [5, 6])


def test_files(tmp_path):
    arrays = {"x": np.arange(4.0), "y": np.arange(4)}
    np.savez(tmp_path / "a.npz", **arrays)
    save_file(arrays, tmp_path / "b.safetensors")
    for name in ("a.npz", "b.safetensors"):
        assert data.FileDataset(tmp_path / name)[2] == {"x": 2.0, "y": 2}
    assert data.FileDataset(tmp_path / "a.npz", ["y"])[1] == {"y": 1}
    with pytest.raises(ArgumentError, match=r"must hold \['z'\], and has \['x', 'y'\]"):
        data.FileDataset(tmp_path / "a.npz", ["z"])
    folder = data.FolderDataset(tmp_path)
    assert len(folder) == 2
    assert folder[1]["y"].tolist() == [0, 1, 2, 3]
    texts = data.FolderDataset(tmp_path, lambda path: path.name, "*.npz")
    assert list(texts) == ["a.npz"]
    with pytest.raises(ArgumentError, match="must be a folder"):
        data.FolderDataset(tmp_path / "absent")


def test_what_a_subclass_forgets_is_said():
    class Nothing(data.Dataset):
        pass

    with pytest.raises(ArgumentError, match=r"must define __getitem__\(index\)"):
        Nothing()[0]
    with pytest.raises(ArgumentError, match=r"must define __len__"):
        len(Nothing())
    with pytest.raises(ArgumentError, match=r"must define __iter__"):
        iter(data.StreamDataset())


def test_collate():
    made = data.collate([(1, 2.5, True, "a", np.float16(1)), (3, 4, False, "b", np.float16(2))])
    assert [getattr(leaf, "dtype", None) for leaf in made] == [
        np.int32, np.float32, np.bool_, None, np.float16,
    ]  # fmt: skip
    assert made[3] == ["a", "b"]
    with pytest.raises(TreeError, match="one structure"):
        data.collate([{"a": 1}, {"b": 1}])
    with pytest.raises(ShapeError, match=r"got \[\[2\], \[3\]\]"):
        data.collate([np.zeros(2), np.zeros(3)])
    with pytest.raises(ArgumentError, match="got none"):
        data.collate([])
    with pytest.raises(OverflowDTypeError, match="fit int32"):
        data.collate([1, 2**40])
    with mgefn.enable_x64(True):
        assert data.collate([1, 2**40]).dtype == np.int64


def test_pipeline_composes():
    pipe = data.batch(data.map(data.zip(range(7), "abcdefg"), lambda p: p[0] * 10), 3)
    assert [b.tolist() for b in pipe] == [[0, 10, 20], [30, 40, 50], [60]]
    assert len(data.batch(range(7), 3, drop_remainder=True)) == 2
    assert list(data.take(data.repeat(data.take(range(9), 2)), 5)) == [0, 1, 0, 1, 0]
    assert len(data.repeat([])) == 0
    assert len(data.repeat([1])) == sys.maxsize
    assert list(data.batch(range(4), 2, batch_fn=sum)) == [1, 5]


def test_shuffle_is_a_function_of_the_key_and_changes_each_epoch():
    shuffled = data.shuffle(range(20), random.key(4))
    assert list(shuffled) == list(shuffled)
    assert list(shuffled) != list(data.shuffle(range(20), random.key(5)))
    two = list(data.repeat(shuffled, 2))
    assert two[:20] == list(shuffled) != two[20:]
    assert sorted(two[20:]) == list(range(20))
    # Batches never mix two epochs.
    batches = list(data.repeat(data.batch(shuffled, 8), 2))
    assert [len(b) for b in batches] == [8, 8, 4] * 2
    assert np.concatenate(batches).tolist() == two


def test_map_with_a_key_draws_anew_for_each_item_and_epoch():
    noisy = data.repeat(data.map([0.0] * 3, lambda x, k: x + random.uniform(k), random.key(0)), 2)
    drawn = [float(x) for x in noisy]
    assert len(set(drawn)) == 6
    assert drawn == [float(x) for x in noisy]


def test_iterator_position():
    pipe = data.repeat(data.batch(data.shuffle(range(10), random.key(1)), 4), 3)
    whole = [b.tolist() for b in pipe]
    for cut in range(len(whole) + 1):
        first = pipe.iterate()
        seen = [next(first).tolist() for _ in range(cut)]
        position = data.checkpoint_iterator(first)
        rest = data.restore_iterator(pipe.iterate(), position)
        assert seen + [b.tolist() for b in rest] == whole


def test_streams_have_no_numbers():
    stream = data.StreamDataset(lambda: iter(range(3)))
    assert list(stream) == [0, 1, 2]
    with pytest.raises(ArgumentError, match="no numbers"):
        stream[0]
    with pytest.raises(ArgumentError, match="shuffle: needs a dataset with a length"):
        data.shuffle(stream)


# -- collections that are read from files ---------------------------------------------------------


def idx(a: np.ndarray) -> bytes:
    sizes = b"".join(int(n).to_bytes(4, "big") for n in a.shape)
    return bytes([0, 0, 8, a.ndim]) + sizes + a.astype(np.uint8).tobytes()


def test_mnist(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(5)))
    mnist = data.datasets.MNIST(tmp_path)
    assert len(mnist) == 5
    assert np.array_equal(mnist[3][0][..., 0], images[3])
    assert mnist[3][1] == 3
    with pytest.raises(ArgumentError, match="must hold t10k-images-idx3-ubyte"):
        data.datasets.MNIST(tmp_path, train=False)
    with pytest.raises(ArgumentError, match="which is not downloaded"):
        data.datasets.MNIST(tmp_path / "absent", download=True)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(5))[:-1])
    with pytest.raises(FileFormatError, match="IDX"):
        data.datasets.MNIST(tmp_path)


def test_cifar(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (4, 1 + 3072)).astype(np.uint8)
    inner = tmp_path / "cifar-10-batches-bin"
    inner.mkdir()
    for i in range(1, 6):
        (inner / f"data_batch_{i}.bin").write_bytes(rows.tobytes())
    cifar = data.datasets.CIFAR10(tmp_path)
    assert len(cifar) == 20
    image, label = cifar[5]
    assert label == rows[1, 0]
    assert np.array_equal(image[2, 7], rows[1, 1:].reshape(3, 32, 32)[:, 2, 7])
    (tmp_path / "test.bin").write_bytes(bytes([9, 42]) + rows[0, 1:].tobytes())
    assert data.datasets.CIFAR100(tmp_path, train=False)[0][1] == 42
    (tmp_path / "test.bin").write_bytes(b"123")
    with pytest.raises(FileFormatError, match="rows of 3074 bytes"):
        data.datasets.CIFAR100(tmp_path, train=False)


def test_image_folders(tmp_path):
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            colour = (255, 0, 0) if name == "cat" else (0, 0, 255)
            Image.new("RGB", (4, 3), colour).save(tmp_path / split / name / "1.png")
            (tmp_path / split / name / "notes.txt").write_text("no image")
    images = data.datasets.ImageNet(tmp_path)
    assert images.classes == ["cat", "dog"]
    image, label = images[1]
    assert image.shape == (3, 4, 3)
    assert (image[0, 0].tolist(), label) == ([0, 0, 255], 1)
    named = data.datasets.ImageFolder(tmp_path / "val", class_name=True)
    assert [label for _, label in named] == ["cat", "dog"]
    assert len(data.datasets.ImageFolder(tmp_path / "val", lambda p: p.suffix == ".png")) == 2
    with pytest.raises(ArgumentError, match="must hold folders with images"):
        data.datasets.ImageFolder(tmp_path / "val" / "cat")
