"""Computational geometry in plain NumPy: meshes, rays, cameras, curves, hulls, rotations."""

import numpy as np


def ray_triangles(origin, directions, triangles):
    """Where rays first meet triangles (Moeller and Trumbore), smooth in depth and shading."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    e1, e2 = b - a, c - a
    rays = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    p = np.cross(rays[:, None, :], e2[None])
    det = np.sum(e1 * p, axis=-1)
    s = origin - a
    u = np.sum(s * p, axis=-1) / det
    q = np.cross(s, e1)
    v = rays @ q.T / det
    t = np.sum(e2 * q, axis=-1) / det
    hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-6)
    depth = np.where(hit, t, 10.0)
    nearest = np.argmin(depth, axis=1)
    normals = np.cross(e1, e2)
    normals = normals / np.sqrt((normals**2).sum(-1))[:, None]
    facing = np.abs(np.einsum("rk,rk->r", rays, normals[nearest]))
    return depth.min(axis=1), np.where(hit.any(axis=1), facing, 0.0)


def quaternion_blend(p, q, fractions, points):
    """Points turned by rotations between two quaternions (slerp)."""
    p = p / np.linalg.norm(p)
    q = q / np.linalg.norm(q)
    cosine = np.dot(p, q)
    q = np.where(cosine < 0, -q, q)
    angle = np.arccos(np.abs(cosine))
    weights_p = np.sin((1 - fractions) * angle) / np.sin(angle)
    weights_q = np.sin(fractions * angle) / np.sin(angle)
    blended = weights_p[:, None] * p + weights_q[:, None] * q
    w, v = blended[:, :1], blended[:, 1:]
    turned = []
    for point in points:
        along = 2 * np.cross(v, point)
        turned.append(point + w * along + np.cross(v, along))
    return np.stack(turned, axis=1), angle


def camera_projection(points, pose, focal):
    """Pixels of points in space under a camera with radial distortion, and errors to a grid."""
    rotation, shift = pose[:3], pose[3:]
    angle = np.sqrt(np.sum(rotation**2) + 1e-12)
    k = rotation / angle
    K = np.cross(np.eye(3), k)
    R = np.eye(3) - np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K)
    local = points @ R.T + shift
    flat = local[:, :2] / local[:, 2:]
    radius2 = np.sum(flat**2, axis=1, keepdims=True)
    distorted = flat * (1 + 0.1 * radius2 - 0.02 * radius2**2)
    pixels = focal * distorted + np.array([3.0, 2.0])
    error = pixels - np.round(pixels)
    return pixels, np.sqrt(np.mean(np.sum(error**2, axis=1)))


def bezier_curve(control, samples=6):
    """A curve by de Casteljau's scheme: its points, length, curvature and enclosed area."""
    t = np.linspace(0, 1, samples)[:, None, None]
    level = control[None]
    while level.shape[1] > 2:
        level = (1 - t) * level[:, :-1] + t * level[:, 1:]
    tangent = (len(control) - 1) * (level[:, 1] - level[:, 0])
    points = (1 - t[:, 0]) * level[:, 0] + t[:, 0] * level[:, 1]
    speed = np.hypot(tangent[:, 0], tangent[:, 1])
    acceleration = np.gradient(tangent, 1 / (samples - 1), axis=0)
    turn = tangent[:, 0] * acceleration[:, 1] - tangent[:, 1] * acceleration[:, 0]
    curvature = turn / speed**3
    length = np.trapezoid(speed, dx=1 / (samples - 1))
    x, y = points[:, 0], points[:, 1]
    area = 0.5 * np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])
    return points, curvature, np.stack([length, area])


def clipped_polygon(polygon, corner):
    """Area of a polygon left of two lines through a corner, its points pushed in smoothly."""

    def push(points, normal, offset):
        beyond = points @ normal - offset
        inside = -np.logaddexp(0, -6 * beyond) / 6
        excess = beyond + np.logaddexp(0, -6 * beyond) / 6
        return points - excess[:, None] * normal, inside

    clipped, _ = push(polygon, np.array([1.0, 0.0]), corner[0])
    clipped, depth = push(clipped, np.array([0.6, 0.8]), 0.6 * corner[0] + 0.8 * corner[1])
    following = np.roll(clipped, -1, axis=0)
    cross = clipped[:, 0] * following[:, 1] - clipped[:, 1] * following[:, 0]
    area = 0.5 * np.sum(cross)
    perimeter = np.sum(np.sqrt(np.sum((following - clipped) ** 2, axis=1) + 1e-9))
    roundness = 4 * np.pi * area / perimeter**2
    return clipped, area, roundness + 0.1 * depth.mean()


def laplacian_smoothing(vertices, edges, rounds=3):
    """A mesh after Taubin's smoothing, and its bending before and after."""
    n = len(vertices)
    adjacency = np.zeros((n, n))
    adjacency[edges[:, 0], edges[:, 1]] = 1
    adjacency[edges[:, 1], edges[:, 0]] = 1
    degree = adjacency.sum(axis=1)
    L = np.eye(n) - adjacency / degree[:, None]
    before = np.linalg.norm(L @ vertices, axis=1).sum()
    for k in range(rounds):
        factor = 0.4 if k % 2 == 0 else -0.42
        vertices = vertices - factor * np.tensordot(L, vertices, axes=1)
    after = np.linalg.norm(L @ vertices, axis=1).sum()
    lengths = np.sqrt(((vertices[edges[:, 0]] - vertices[edges[:, 1]]) ** 2).sum(axis=1))
    return vertices, before - after, lengths.std()


def implicit_surface(radii, centres, level=0.4):
    """Volume, centre and slope of a union of soft balls on a grid."""
    axis = np.linspace(-1.5, 1.5, 5)
    X, Y, Z = np.meshgrid(axis, axis, axis, indexing="ij")
    grid = np.stack([X, Y, Z], axis=-1)
    offset = grid[..., None, :] - centres
    distance2 = np.einsum("...k,...k->...", offset, offset)
    field = np.sum(np.exp(-distance2 / radii**2), axis=-1)
    inside = 1 / (1 + np.exp(-8 * (field - level)))
    cell = (axis[1] - axis[0]) ** 3
    volume = inside.sum() * cell
    centre = np.tensordot(inside, grid, axes=3) * cell / volume
    slopes = np.gradient(inside, axis, axis, axis)
    surface = np.sqrt(sum(g**2 for g in slopes) + 1e-6).sum() * cell
    return volume, centre, surface


def triangle_centres(triangle):
    """Incentre, circumcentre, orthocentre and Euler's line of a triangle in the plane."""
    A, B, C = triangle
    sides = np.stack([np.linalg.norm(B - C), np.linalg.norm(C - A), np.linalg.norm(A - B)])
    s = 0.5 * sides.sum()
    area = np.sqrt(s * np.prod(s - sides))
    incentre = sides @ triangle / sides.sum()
    squared = sides**2
    weights = squared * (np.roll(squared, -1) + np.roll(squared, 1) - squared)
    circumcentre = weights @ triangle / weights.sum()
    centroid = triangle.mean(axis=0)
    orthocentre = 3 * centroid - 2 * circumcentre
    inradius, circumradius = area / s, np.prod(sides) / (4 * area)
    euler = orthocentre - circumcentre
    direction = np.arctan2(euler[1], euler[0])
    angles = np.arccos((squared.sum() - 2 * squared) / (2 * np.prod(sides) / sides))
    centres = np.vstack([incentre, circumcentre, orthocentre])
    return centres, angles, np.stack([inradius, circumradius, direction])


def fitted_circle(points):
    """Circle through noisy points: algebraic start, two geometric steps, and the residuals."""
    x, y = points[:, 0], points[:, 1]
    A = np.column_stack([2 * x, 2 * y, np.ones(len(x))])
    solution = np.linalg.lstsq(A, x**2 + y**2, rcond=None)[0]
    cx, cy = solution[0], solution[1]
    r = np.sqrt(solution[2] + cx**2 + cy**2)
    for _ in range(2):
        dx, dy = x - cx, y - cy
        distance = np.hypot(dx, dy)
        J = np.stack([-dx / distance, -dy / distance, -np.ones_like(dx)], axis=1)
        step = np.linalg.solve(J.T @ J, J.T @ (distance - r))
        cx, cy, r = cx - step[0], cy - step[1], r - step[2]
    residual = np.hypot(x - cx, y - cy) - r
    spread = np.unwrap(np.sort(np.arctan2(y - cy, x - cx)))
    return np.stack([cx, cy, r]), np.sqrt(np.mean(residual**2)), np.ptp(spread)


_rng = np.random.default_rng(24)
_turns = np.linspace(0.2, 4.9, 6)

PROGRAMS = [
    (
        ray_triangles,
        (
            np.array([0.1, 0.2, -3.0]),
            np.array([[0.0, 0.0, 1.0], [0.1, 0.05, 1.0], [0.9, 0.8, 0.2]]),
            np.array(
                [
                    [[-1.0, -1.0, 0.0], [2.0, -1.0, 0.3], [0.0, 2.0, 0.5]],
                    [[-1.0, -1.0, 1.0], [2.0, -1.0, 1.4], [0.0, 2.0, 0.8]],
                ]
            ),
        ),
    ),
    (
        quaternion_blend,
        (
            np.array([0.9, 0.1, -0.3, 0.2]),
            np.array([-0.2, 0.5, 0.4, -0.3]),
            np.array([0.2, 0.7]),
            _rng.normal(size=(2, 3)),
        ),
    ),
    (
        camera_projection,
        (_rng.normal(size=(3, 3)), np.array([0.3, -0.2, 0.5, 0.1, 0.2, 6.0]), np.array(5.0)),
    ),
    (bezier_curve, (np.array([[0.0, 0.0], [1.0, 2.0], [2.5, 1.5], [3.0, -0.5]]),)),
    (
        clipped_polygon,
        (
            np.array([[0.0, 0.0], [2.0, 0.1], [2.5, 1.5], [1.0, 2.0], [-0.5, 1.0]]),
            np.array([1.4, 0.8]),
        ),
    ),
    (
        laplacian_smoothing,
        (_rng.normal(size=(4, 3)), np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])),
    ),
    (implicit_surface, (np.array([0.8, 0.6]), np.array([[0.3, 0.1, -0.2], [-0.5, 0.2, 0.4]]))),
    (triangle_centres, (np.array([[0.1, 0.0], [3.0, 0.4], [1.2, 2.2]]),)),
    (
        fitted_circle,
        (
            np.stack([2 * np.cos(_turns) + 1, 2 * np.sin(_turns) - 0.5], axis=1)
            + 0.1 * _rng.normal(size=(6, 2)),
        ),
    ),
]
