"""What the comparison with JAX leaves out and where mgefn means to differ, with the reasons."""

from __future__ import annotations

from tests.peers.frame import Deviation


def each(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


# -- functions without a spec ---------------------------------------------------------------------

OMITTED: dict[str, str] = {
    **each(
        "numpy.gcd numpy.lcm",
        "the program of all cases did not return from JAX 0.10.2 within two minutes; "
        "tests/numpy holds them to NumPy",
    ),
    **each(
        "numpy.character numpy.complexfloating numpy.flexible numpy.floating numpy.generic "
        "numpy.inexact numpy.integer numpy.number numpy.object_ numpy.signedinteger "
        "numpy.unsignedinteger",
        "NumPy's abstract type in both libraries, not called",
    ),
    **each(
        "numpy.ndarray numpy.get_printoptions numpy.printoptions numpy.set_printoptions",
        "the class of arrays, and NumPy's settings for printing: state, not functions of arrays",
    ),
    **each(
        "lax.ConvDimensionNumbers lax.GatherDimensionNumbers lax.ScatterDimensionNumbers "
        "lax.FftType lax.GatherScatterMode lax.Precision lax.PrecisionLike lax.RoundingMethod "
        "lax.linalg.EigImplementation lax.linalg.EighImplementation lax.linalg.SvdAlgorithm "
        "nn.initializers.Initializer scipy.optimize.OptimizeResults",
        "a record, an enumeration or a protocol: compared where a function takes or returns it",
    ),
    **each(
        "lax.pcast lax.with_sharding_constraint",
        "only means something on a mesh of several devices, which mgefn has not",
    ),
    "lax.pbroadcast": "JAX refuses it under vmap and off the GPU",
    "numpy.fromiter": "raises in JAX, which says to use NumPy's",
    "numpy.fromfile": "raises in JAX, which says to use NumPy's",
    **each(
        "random.key_dtype",
        "the dtype object of typed keys is each library's own; the keys are compared by their data",
    ),
}

# -- deviations -----------------------------------------------------------------------------------


def all_of(names: str, where: str, reason: str) -> list[Deviation]:
    return [Deviation(name, where, reason) for name in names.split()]


HONOURED = (
    "uint32 with int32 gives int64, which mgefn honours always; without jax_enable_x64 JAX has no "
    "64 bits and takes int32"
)
BOOL_NUMBERS = "arithmetic of bool gives NumPy's int8; JAX takes int32"
ANNIHILATES = "a zero times a slope that is not finite is 0 (sharp bits: zero_annihilates)"
DEFAULT_INDEX = (
    "indices are default integers, as everywhere in mgefn; JAX takes int32 where they fit"
)

INTEGERS_STAY = "the result of integers has integers, as in NumPy; JAX takes floats"
NO_WIDER = (
    "of a bool or an integer of 32 bits float32, as sqrt and all others; where JAX's code meets a "
    "Python float first it takes float64"
)

DEVIATIONS: list[Deviation] = [
    *all_of(
        "numpy.cumsum numpy.cumprod numpy.cumulative_prod",
        r"^u?int(8|32)\[.*dtype",
        "of integers at least the default integer, as in NumPy and the array standard, and as sum",
    ),
    *all_of(
        "numpy.power numpy.pow",
        "^edges int32 .*value",
        "an integer to a negative power is 0 but for 1 and -1, whatever the power",
    ),
    *all_of(
        "numpy.power numpy.pow",
        "^bool with . wide dtype",
        "a bool and a Python integer have the default integer, of 64 bits with enable_x64",
    ),
    Deviation(
        "numpy.divmod",
        "^edges float64 wide value",
        "the quotient of 1e308 by itself is 1, as in NumPy; JAX gives 0",
    ),
    *all_of(
        "numpy.logaddexp2",
        "value",
        "computed in base 2, and exact where both are equal; JAX goes through base e",
    ),
    Deviation(
        "scipy.special.logsumexp",
        r"^float64\[2\] wide (jvp|grad)",
        "0 where nothing depends on the element; JAX gives nan",
    ),
    *all_of(
        "numpy.add numpy.subtract numpy.multiply numpy.maximum numpy.minimum numpy.fmax numpy.fmin "
        "numpy.power numpy.pow numpy.fmod numpy.mod numpy.remainder numpy.floor_divide "
        "numpy.divmod numpy.bitwise_and numpy.bitwise_or numpy.bitwise_xor numpy.left_shift "
        "numpy.right_shift numpy.bitwise_left_shift numpy.bitwise_right_shift",
        "^uint32 int32 narrow dtype",
        HONOURED,
    ),
    *all_of(
        "numpy.square numpy.power numpy.pow numpy.fmod numpy.mod numpy.remainder "
        "numpy.floor_divide numpy.divmod numpy.left_shift numpy.right_shift "
        "numpy.bitwise_left_shift numpy.bitwise_right_shift",
        r"^(bool|bool bool|bool with True|scalar True) \w+ dtype",
        BOOL_NUMBERS,
    ),
    *all_of("numpy.std", r"axis=\(\) wide (jvp|grad)", ANNIHILATES),
    Deviation("numpy.nanstd", "axis=0 wide (jvp|grad)", ANNIHILATES),
    *all_of(
        "numpy.nancumsum numpy.nancumprod",
        "^int32.* wide dtype",
        "of the dtype of cumsum and cumprod, which JAX takes for those alone",
    ),
    *all_of("numpy.searchsorted numpy.ravel_multi_index", "wide dtype", DEFAULT_INDEX),
    Deviation(
        "scipy.linalg.pascal", "wide dtype", "the default float; JAX takes float32 in each width"
    ),
    Deviation("numpy.tri", "^3 wide dtype", "the default float; JAX takes float32 in each width"),
    Deviation(
        "numpy.polymul",
        r"^int32\[3\] int32\[4\] \w+ dtype",
        "the product of polynomials of integers has integers, as in NumPy; JAX takes floats",
    ),
    Deviation("numpy.polyint", "^(bool|int32).* wide dtype", NO_WIDER),
    *all_of("numpy.angle", "wide dtype", NO_WIDER),
    Deviation("numpy.rint", "wide dtype", NO_WIDER),
    Deviation(
        "numpy.spacing",
        "^float16 narrow value",
        "has the sign of the number, as in NumPy and in JAX's other dtypes",
    ),
    Deviation(
        "numpy.modf",
        "^edges .* value",
        "the fraction of an infinity is 0, as in NumPy; JAX gives nan",
    ),
    *all_of(
        "numpy.arctan2 numpy.atan2",
        "complex64|complex128|1j",
        "not defined for complex numbers, as in NumPy",
    ),
    *all_of(
        "numpy.float_power",
        "^bool complex64 .*value",
        "0 to a complex power is 0 where its real part is positive; JAX gives nan",
    ),
    *all_of(
        "numpy.true_divide numpy.divide numpy.floor_divide",
        "^edges float64 wide value",
        "XLA multiplies by the reciprocal and flushes it to 0: max / max is 0 there",
    ),
    *all_of(
        "numpy.fft.irfft numpy.fft.hfft",
        r"^float64\[2, 1\] wide raises",
        "an inverse transform to no points raises, as in NumPy",
    ),
    *all_of("numpy.array_repr", "value", "prints as NumPy's array; JAX names its own class"),
    Deviation(
        "numpy.array_str",
        r"^float32\[2, 3\] narrow value",
        "prints the digits that float32 has; JAX those of the same number in float64",
    ),
    *all_of(
        "lax.top_k lax.approx_max_k lax.approx_min_k lax.linalg.lu",
        "list or tuple",
        "a tuple, as JAX's own signature says; JAX returns a list",
    ),
    *all_of(
        "nn.celu nn.elu nn.hard_sigmoid nn.hard_silu nn.hard_swish nn.leaky_relu nn.relu6 nn.selu "
        "nn.sparse_plus nn.sparse_sigmoid",
        "^int32 wide dtype",
        NO_WIDER,
    ),
    *all_of(
        "nn.dot_product_attention",
        "^float64.* wide value",
        "float64 throughout; JAX takes the softmax in float32, and with it the result",
    ),
    *all_of("nn.softmax nn.log_softmax", "^int32.* where=.* wide dtype", NO_WIDER),
    Deviation(
        "nn.one_hot", r"^float32\[3\] 3 \w+ raises", "needs integers: an index is no measurement"
    ),
    Deviation(
        "scipy.special.spence", "^float64 wide grad", "JAX's gradient is nan above 1, its jvp not"
    ),
    Deviation("numpy.linalg.vector_norm", "^int32.* wide dtype", NO_WIDER),
    Deviation(
        "lax.conj",
        "^(f32|f64|scalar|float|bfloat)",
        "one public function with numpy.conj (architecture), which leaves real numbers real",
    ),
    Deviation(
        "scipy.stats.poisson.entropy",
        r"^float64\[2\] wide value",
        "exact for large mu too, where JAX has the first terms of a series: 9e-7 off at 110",
    ),
    Deviation(
        "numpy.einsum_path",
        "structure",
        "the path begins with the word einsum_path, as NumPy's; JAX's has the pairs alone",
    ),
    Deviation(
        "scipy.special.owens_t",
        "^float16 float16 narrow dtype",
        "float16 of float16, as all others; JAX takes float32",
    ),
    Deviation("scipy.special.owens_t", "^(int32 |.* int32 wide).*dtype", NO_WIDER),
    Deviation("scipy.special.bernoulli", "^6 wide value", "right to 2e-12; JAX's to 3e-6"),
    Deviation(
        "scipy.special.zeta",
        "slope raises",
        "no derivative in the first argument; an error says so",
    ),
    Deviation("scipy.special.sph_harm_y", "float32.* wide dtype", NO_WIDER),
    *all_of("numpy.convolve numpy.correlate", "^int32.* dtype", INTEGERS_STAY),
    Deviation("numpy.digitize", "wide dtype", DEFAULT_INDEX),
    *all_of(
        "numpy.histogram2d numpy.histogramdd",
        r"bins=3 \w+ dtype",
        "the counts are floats, as in NumPy; JAX has integers",
    ),
]
