"""Images in plain NumPy: filters, sampling, pooling, measures."""

import numpy as np


def sobel_edges(image):
    """Strength of edges by Sobel's filter, inside the border."""
    rows = image[:-2] + 2 * image[1:-1] + image[2:]
    columns = image[:, :-2] + 2 * image[:, 1:-1] + image[:, 2:]
    horizontal = rows[:, 2:] - rows[:, :-2]
    vertical = columns[2:, :] - columns[:-2, :]
    return np.hypot(horizontal, vertical)


def box_blur(image, size=2):
    """Mean over a window by the integral image."""
    integral = np.pad(image.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    total = (
        integral[size:, size:]
        - integral[:-size, size:]
        - integral[size:, :-size]
        + integral[:-size, :-size]
    )
    return total / size**2


def bilinear_sample(image, x, y):
    """Values of an image between its pixels."""
    height, width = image.shape
    x0 = np.clip(np.floor(x).astype(int), 0, width - 2)
    y0 = np.clip(np.floor(y).astype(int), 0, height - 2)
    fx, fy = x - x0, y - y0
    top = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
    bottom = image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx
    return top * (1 - fy) + bottom * fy


def gamma_and_psnr(image, gamma):
    """Gamma correction, and the peak signal to noise ratio to the original in decibels."""
    scaled = (image - image.min()) / np.ptp(image)
    corrected = np.clip(scaled, 1e-3, 1.0) ** gamma
    error = np.mean((corrected - scaled) ** 2)
    return corrected, 10 * np.log10(1 / error)


def max_pool(image):
    """Two by two pooling, and the mirrored and turned results."""
    h, w = image.shape
    pooled = image.reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))
    return np.fliplr(pooled), np.rot90(pooled), pooled[::-1, ::-1].T


def gray_and_saturation(rgb):
    """Luminance and saturation of a colour image."""
    gray = rgb @ np.array([0.299, 0.587, 0.114])
    high, low = rgb.max(axis=-1), rgb.min(axis=-1)
    saturation = np.where(high > 0, (high - low) / np.where(high > 0, high, 1), 0)
    return np.dstack([gray, saturation])


def dilate_and_erode(image):
    """Morphological gradient with a cross of five pixels."""
    p = np.pad(image, 1, mode="reflect")
    cross = np.stack([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]])
    return np.amax(cross, axis=0) - np.amin(cross, axis=0)


def image_moments(image):
    """Centre and orientation of the bright part of an image."""
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    bright = np.where(image > np.mean(image), image, 0.0)
    mass = bright.sum()
    cx, cy = (x * bright).sum() / mass, (y * bright).sum() / mass
    mu20 = ((x - cx) ** 2 * bright).sum() / mass
    mu02 = ((y - cy) ** 2 * bright).sum() / mass
    mu11 = ((x - cx) * (y - cy) * bright).sum() / mass
    return np.stack([cx, cy, 0.5 * np.arctan2(2 * mu11, mu20 - mu02)])


def low_pass_2d(image, radius=0.3):
    """An image without its high frequencies, by the two-dimensional transform."""
    fy = np.fft.fftfreq(image.shape[0])
    fx = np.fft.fftfreq(image.shape[1])
    mask = np.sqrt(fy[:, None] ** 2 + fx[None, :] ** 2) <= radius
    return np.real(np.fft.ifft2(np.fft.fft2(image) * mask))


_rng = np.random.default_rng(7)
_image = _rng.uniform(size=(4, 4))

PROGRAMS = [
    (sobel_edges, (_image,)),
    (box_blur, (_image,)),
    (bilinear_sample, (_image, np.array([0.3, 1.6, 2.7]), np.array([2.2, 0.4, 1.5]))),
    (gamma_and_psnr, (_image, np.array(2.2))),
    (max_pool, (_image,)),
    (gray_and_saturation, (_rng.uniform(size=(2, 2, 3)),)),
    (dilate_and_erode, (_image,)),
    (image_moments, (_image,)),
    (low_pass_2d, (_image,)),
]
