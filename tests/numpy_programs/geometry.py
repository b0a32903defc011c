"""Geometry in plain NumPy: polygons, rotations, distances, alignment, the globe."""

import numpy as np


def polygon_area_and_centroid(points):
    """Signed area and centroid of a polygon, by the shoelace formula."""
    x, y = points.T
    x_next, y_next = np.roll(x, -1), np.roll(y, -1)
    cross = x * y_next - x_next * y
    area = 0.5 * cross.sum()
    centroid = np.stack([((x + x_next) * cross).sum(), ((y + y_next) * cross).sum()]) / (6 * area)
    return area, centroid


def rotate_about_axis(points, axis, angle):
    """Points turned about an axis through the origin, by Rodrigues' formula."""
    k = axis / np.linalg.norm(axis)
    along = np.dot(points, k)[:, None] * k
    return (
        points * np.cos(angle) + np.cross(k, points) * np.sin(angle) + along * (1 - np.cos(angle))
    )


def pairwise_distances(P, Q):
    """Distances between two sets of points, and to the nearest and second nearest."""
    squared = np.sum(P**2, axis=1)[:, None] + np.sum(Q**2, axis=1)[None, :] - 2 * P @ Q.T
    distances = np.sqrt(np.maximum(squared, 0))
    nearest = np.partition(distances, 1, axis=1)[:, :2]
    return distances, nearest


def distance_to_segment(p, a, b):
    """Distance from each point to a segment."""
    direction = b - a
    t = ((p - a) @ direction) / (direction @ direction)
    t = np.clip(t, 0, 1)
    foot = a + t[..., None] * direction
    return np.hypot(*(p - foot).T)


def aligned_rmsd(P, Q):
    """Root mean square distance after the best rotation (Kabsch)."""
    P = P - P.mean(axis=0)
    Q = Q - Q.mean(axis=0)
    U, _, Vt = np.linalg.svd(P.T @ Q)
    handedness = np.sign(np.linalg.det(U @ Vt))
    R = U @ np.diag(np.array([1.0, 1.0, 0.0])) @ Vt + handedness * np.outer(U[:, 2], Vt[2])
    return np.sqrt(np.mean(np.sum((P @ R - Q) ** 2, axis=1)))


def great_circle(latitudes, longitudes):
    """Length of a route over the globe in kilometres, by the haversine formula."""
    phi, lam = np.radians(latitudes), np.deg2rad(longitudes)
    d_phi, d_lam = np.diff(phi), np.diff(lam)
    h = np.sin(d_phi / 2) ** 2 + np.cos(phi[:-1]) * np.cos(phi[1:]) * np.sin(d_lam / 2) ** 2
    return 2 * 6371.0 * np.sum(np.arcsin(np.sqrt(h)))


def quaternion_rotation(q, v):
    """A vector turned by a quaternion, by way of its rotation matrix."""
    w, x, y, z = q / np.sqrt(np.sum(q * q))
    R = np.stack(
        [
            np.stack([1 - 2 * (y**2 + z**2), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x**2 + z**2), 2 * (y * z - w * x)]),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x**2 + y**2)]),
        ]
    )
    return R.dot(v)


def mesh_normals(vertices, faces):
    """Unit normals of triangles and the area of the mesh."""
    a, b, c = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return normals / lengths, 0.5 * lengths.sum()


def homogeneous_transform(points, angles, shift):
    """Points under a rotation and a shift by one block matrix, and the angles between rows."""
    ca, sa = np.cos(angles), np.sin(angles)
    R = np.stack([ca[0], -sa[0], sa[0], ca[0]]).reshape(2, 2)
    T = np.block([[R, shift[:, None]], [np.zeros((1, 2)), np.ones((1, 1))]])
    moved = np.column_stack([points, np.ones(len(points))]) @ T.T
    unit = np.apply_along_axis(lambda row: row / np.linalg.norm(row), 1, moved[:, :2])
    cosines = np.clip(np.inner(unit, unit), -1, 1)[np.triu_indices(len(points), 1)]
    return moved[..., :-1], np.arccos(cosines) + sa[1]


def surface_on_grid(height, widths):
    """Volume under a bump over a grid of x and y, and where the grid is highest."""
    X, Y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 4), indexing="ij")
    Z = height * np.exp(-(X**2) / widths[0] - (Y - 0.1) ** 2 / widths[1])
    i, j = np.unravel_index(np.argmax(Z), Z.shape)
    volume = np.trapezoid(np.trapezoid(Z, Y[0], axis=1), X[:, 0])
    return volume, Z[i, j] + 0.25 * i, Z[::2, ::-3]


_rng = np.random.default_rng(4)

PROGRAMS = [
    (
        polygon_area_and_centroid,
        (np.array([[0.0, 0.0], [2.0, 0.1], [2.5, 1.5], [1.0, 2.0], [-0.5, 1.0]]),),
    ),
    (rotate_about_axis, (_rng.normal(size=(3, 3)), np.array([1.0, 2.0, -1.0]), np.array(0.7))),
    (pairwise_distances, (_rng.normal(size=(3, 2)), _rng.normal(size=(4, 2)))),
    (
        distance_to_segment,
        (_rng.normal(size=(5, 2)), np.array([-0.5, 0.0]), np.array([0.5, 0.3])),
    ),
    (aligned_rmsd, (_rng.normal(size=(5, 3)), _rng.normal(size=(5, 3)))),
    (great_circle, (np.array([52.5, 48.9, 40.4, 38.7]), np.array([13.4, 2.4, -3.7, -9.1]))),
    (quaternion_rotation, (np.array([0.9, 0.1, -0.3, 0.2]), np.array([1.0, 2.0, 3.0]))),
    (
        mesh_normals,
        (_rng.normal(size=(4, 3)), np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])),
    ),
    (
        homogeneous_transform,
        (_rng.normal(size=(3, 2)), np.array([0.4, 1.1]), np.array([0.5, -2.0])),
    ),
    (surface_on_grid, (np.array(1.5), np.array([0.6, 0.9]))),
]
