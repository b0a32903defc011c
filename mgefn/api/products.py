"""Products of second derivatives with vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mgefn.api.derivatives import grad, jvp
from mgefn.api.flat import checked_function, resolve_argnums
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, api_boundary


@api_boundary
def hvp(fun: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of a scalar-valued function times a vector.

    The Hessian is never formed: the product costs about four evaluations of fun.

    Args:
        fun: returns a real scalar.
        argnum: which positional argument to differentiate with respect to.

    Returns:
        A function of the arguments of fun and, last, the vector: a pytree like the argument at
        argnum. It gives a pytree of the same structure.

    Example:
        >>> mgefn.hvp(lambda x: (x**3).sum())(mnp.array([1.0, 2.0]), mnp.array([1.0, 1.0]))
        Array([ 6., 12.], dtype=float32)
    """
    checked_function("hvp", fun)
    about = f"hvp({fun_name(fun)})"

    @functools.wraps(
        fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=()
    )
    def hvp_of_fun(*args_and_vector: Any, **kwargs: Any) -> Any:
        if len(args_and_vector) < 2:
            raise ArgumentError(
                f"{about}: needs the arguments of the function and then a vector, got "
                f"{len(args_and_vector)} positional arguments. Pass the vector last."
            )
        *args, vector = args_and_vector
        (i,) = resolve_argnums(about, argnum, len(args))
        gradient = grad(fun, i)

        def of_one(x: Any) -> Any:
            return gradient(*args[:i], x, *args[i + 1 :], **kwargs)

        return jvp(of_one, (args[i],), (vector,))[1]

    return api_boundary(hvp_of_fun)


__all__ = ["hvp"]
