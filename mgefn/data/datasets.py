"""Well-known collections of images, read from files that are already there.

Nothing is downloaded, and no pickle is read: CIFAR comes from its binary version.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mgefn.data.sources import ArrayDataset, Dataset, index_of
from mgefn.errors import ArgumentError, FileFormatError


def _folder(name: str, root: Any, download: bool, files: str) -> Path:
    if root is None or not Path(root).is_dir():
        also = ", which is not downloaded" if download else ""
        raise ArgumentError(
            f"{name}: root must be the folder of {files}{also}, got {root!r}. Put the files there."
        )
    return Path(root)


def _bytes(name: str, folder: Path, file: str) -> bytes:
    for path in (folder / file, folder / f"{file}.gz"):
        if path.is_file():
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data
    raise ArgumentError(f"{name}: {folder} must hold {file}. Put the file there.")


def read_idx(data: bytes, what: str) -> np.ndarray:
    """An array of bytes in the IDX format: two zeros, 8, the rank, the sizes, the elements."""
    rank = data[3] if len(data) > 3 else 0
    start = 4 + 4 * rank
    shape = tuple(np.frombuffer(data[4:start], ">u4").tolist())
    if data[:3] != b"\0\0\x08" or len(shape) != rank or len(data) != start + math.prod(shape):
        raise FileFormatError(
            f"{what}: needs an IDX file of bytes, got {len(data)} bytes that are none. Use another "
            "copy."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


class MNIST(ArrayDataset):
    """28x28 images of handwritten digits: (image of shape (28, 28, 1) and dtype uint8, label).

    Args:
        root: the folder of train-images-idx3-ubyte and the like, as they are or with .gz.
        train: the training images, or the test images.
        download: accepted for other libraries' sake; nothing is downloaded.
    """

    def __init__(self, root: Any = None, train: bool = True, download: bool = False) -> None:
        folder = _folder("MNIST", root, download, "train-images-idx3-ubyte")
        part = "train" if train else "t10k"
        images = read_idx(_bytes("MNIST", folder, f"{part}-images-idx3-ubyte"), "MNIST")
        labels = read_idx(_bytes("MNIST", folder, f"{part}-labels-idx1-ubyte"), "MNIST")
        super().__init__(images[..., None], labels.astype(np.int32))


class _CIFAR(ArrayDataset):
    folder_name = ""
    label_bytes = 1
    label_at = 0

    def __init__(self, root: Any, download: bool, files: list[str]) -> None:
        name = type(self).__name__
        folder = _folder(name, root, download, files[0])
        inner = folder / self.folder_name
        folder = inner if inner.is_dir() else folder
        row = self.label_bytes + 3 * 32 * 32
        rows = []
        for file in files:
            data = np.frombuffer(_bytes(name, folder, file), np.uint8)
            if len(data) % row:
                raise FileFormatError(
                    f"{name}: {file} must have rows of {row} bytes, got {len(data)} bytes. Use the "
                    "binary version."
                )
            rows.append(data.reshape(-1, row))
        whole = np.concatenate(rows)
        pixels = whole[:, self.label_bytes :].reshape(-1, 3, 32, 32)
        images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        super().__init__(images, whole[:, self.label_at].astype(np.int32))


class CIFAR10(_CIFAR):
    """32x32 colour images of 10 classes: (image of shape (32, 32, 3), red first, label).

    Args:
        root: the folder of data_batch_1.bin and the like, or of cifar-10-batches-bin.
        train: the training images, or the test images.
        download: accepted for other libraries' sake; nothing is downloaded.
    """

    folder_name = "cifar-10-batches-bin"

    def __init__(self, root: Any = None, train: bool = True, download: bool = False) -> None:
        files = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
        super().__init__(root, download, files)


class CIFAR100(_CIFAR):
    """32x32 colour images of 100 classes: (image of shape (32, 32, 3), red first, fine label).

    Args:
        root: the folder of train.bin and test.bin, or of cifar-100-binary.
        train: the training images, or the test images.
        download: accepted for other libraries' sake; nothing is downloaded.
    """

    folder_name = "cifar-100-binary"
    label_bytes = 2  # coarse, fine
    label_at = 1

    def __init__(self, root: Any = None, train: bool = True, download: bool = False) -> None:
        super().__init__(root, download, ["train.bin" if train else "test.bin"])


SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})


def is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def read_image(path: Any) -> np.ndarray:
    """The image in a file as an array (height, width, 3) of uint8, red first. Needs Pillow."""
    from PIL import Image

    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


class ImageFolder(Dataset):
    """Images in one folder a class: (image of shape (height, width, 3), number of the class).

    Args:
        root: the folder of the classes' folders. Classes are numbered in the order of their names.
        check_valid_func: path -> whether it is an image; by the name's ending without it.
        class_name: give the name of the class instead of its number.

    Raises:
        ArgumentError: root has no folder, or no image is below them.
    """

    def __init__(
        self,
        root: Any,
        check_valid_func: Callable[[Any], bool] | None = None,
        class_name: bool = False,
    ) -> None:
        folder = _folder("ImageFolder", root, False, "one folder a class")
        valid = is_image if check_valid_func is None else check_valid_func
        self.class_name = class_name
        self.classes = sorted(p.name for p in folder.iterdir() if p.is_dir())
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = [
            (path, name)
            for name in self.classes
            for path in sorted((folder / name).rglob("*"))
            if path.is_file() and valid(path)
        ]
        if not self.samples:
            raise ArgumentError(
                f"ImageFolder: {folder} must hold folders with images, and has none. Correct root."
            )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, name = self.samples[index_of(self, index, len(self))]
        return read_image(path), name if self.class_name else self.class_to_idx[name]


class ImageNet(ImageFolder):
    """ImageNet's images: (image of shape (height, width, 3), number of the class).

    Args:
        root: the folder that holds train/ and val/, one folder a class in each.
        train: which of them.
    """

    def __init__(self, root: Any = None, train: bool = True) -> None:
        folder = _folder("ImageNet", root, False, "train/ and val/")
        super().__init__(folder / ("train" if train else "val"))
