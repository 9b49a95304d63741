"""What daemons multiply, in numpy's names: refuses in the caller's words what
would come back in the wire's. The daemon has the last word."""

import functools
from typing import Any, Optional

import numpy as np

from .errors import InvalidArgument, Unimplemented

_FLOATS = ("float32", "float16", "bfloat16")
_FP8 = ("float8_e4m3fn", "float8_e5m2")
_INTEGERS = ("int8", "uint8")
# Types that go together as a and b.
_FAMILIES = (("bfloat16",), ("float16",), ("float32",), _FP8, _INTEGERS,
             ("bool",))
# Weights, which are widened to the type of the other operand.
_WEIGHTS = ("int4", "uint4", "int8", "float8_e4m3fn")
_WIDENED_TO = ("bfloat16", "float16")
# What numpy raises of what is no type, such as "f4,(".
NO_TYPE = (TypeError, ValueError, SyntaxError)


@functools.lru_cache(maxsize=64)
def _name_of(dtype: "np.dtype[Any]") -> str:
    return dtype.name  # numpy puts it together each time.


def _name(dtype: Any) -> str:
    return _name_of(np.dtype(dtype))


def _partners(dtype: Any) -> tuple[str, ...]:
    name = _name(dtype)
    family = next((members for members in _FAMILIES if name in members), ())
    return (family + (_WEIGHTS if name in _WIDENED_TO else ())
            + (_WIDENED_TO if name in _WEIGHTS else ()))


def is_mixed(a: Any, b: Any) -> bool:
    """Whether one of them is of weights, which are widened."""
    names = (_name(a), _name(b))
    return any(one in _WEIGHTS and other in _WIDENED_TO
               for one, other in (names, names[::-1]))


def multiplied_as(a: "np.dtype[Any]",
                  b: "np.dtype[Any]") -> "np.dtype[Any]":
    """The type whose rules a product goes by: that of a, of weights that of
    b."""
    wide = is_mixed(a, b) and _name(a) in _WEIGHTS
    return b if wide else a


def _sums_are_integers(dtype: Any) -> bool:
    return _name(dtype) in (*_INTEGERS, "bool")


def outputs(dtype: Any) -> tuple[str, ...]:
    """Names of the types that a product of `dtype` may have."""
    if _sums_are_integers(dtype):
        return ("int32", *_FLOATS, *_INTEGERS)
    return (*_FLOATS, *_FP8)


def default_output(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    return np.dtype(np.int32) if _sums_are_integers(dtype) else dtype


def are_real(dtype: "np.dtype[Any]") -> bool:
    """Whether elements are real numbers, numpy's or those of ml_dtypes."""
    return dtype.kind in "biuf" or dtype.isbuiltin == 2


def check_byte_order(dtype: "np.dtype[Any]", side: str) -> None:
    """Names do not tell elements whose bytes are swapped."""
    if not dtype.isnative:
        native = dtype.newbyteorder("=").str
        raise InvalidArgument(
            f"{side}: dtype {dtype.str} has its bytes in another order than "
            f"this machine; allowed: {native!r}, as .astype({native!r}) makes")


def _nearest(dtype: "np.dtype[Any]", array: Any) -> str:
    """A type that holds the elements of `array`, of None any of `dtype`: of
    integers exactly where that can be; "": none is near."""
    if dtype.kind == "f":
        return "np.float32"
    if dtype.kind not in "iu":
        return ""
    if array is not None:
        ends = [int(array.min()), int(array.max())] if array.size else []
        for kind in (np.int8, np.uint8):
            held = np.iinfo(kind)
            if all(held.min <= end <= held.max for end in ends):
                return f"np.{kind.__name__}"
    return "np.float32"


def _advice(dtype: "np.dtype[Any]", side: str, given: Any, array: Any) -> str:
    nearest = _nearest(dtype, array)
    if not nearest:
        return ""
    exact = (", which is exact to 2**24"
             if dtype.kind != "f" and nearest == "np.float32" else "")
    if given is None:
        return f"; the nearest is {nearest}{exact}"
    converted = (f"{side}.astype({nearest})" if isinstance(given, np.ndarray)
                 else f"np.asarray({side}, {nearest})")
    return f"; convert it, as in {converted}{exact}"


def check_input(dtype: Any, side: str, given: Any = None,
                array: Any = None) -> None:
    """`given` is what the caller has in host memory and `array` numpy's array
    of it; None: there is nothing to convert here."""
    if _partners(dtype):
        check_byte_order(np.dtype(dtype), side)
        return
    known = ", ".join(one for members in (*_FAMILIES, _WEIGHTS[:2])
                      for one in members)
    raise InvalidArgument(
        f"{side}: matrices of dtype {_name(dtype)} are not multiplied"
        f"{_advice(np.dtype(dtype), side, given, array)}. Served: {known}")


def check_sparse_type(array: Any, name: str, given: Any) -> None:
    """The types that a sparse matrix may have; as check_input."""
    check_input(array.dtype, name, given, array)
    if _name(array.dtype) in ("bool", "int4", "uint4"):
        raise InvalidArgument(f"{name}: matrices of {_name(array.dtype)} are "
                              "not sparse; allowed: float and integer types")


def check_sparse(a: Any, b: Any, precision: Optional[str]) -> None:
    """Which operands may be sparse, how they lie, and what goes with them."""
    sparse = [(name, value, order) for name, value, order in (
        ("a", a, "C"), ("b", b, "F")) if getattr(value, "sparse", False)]
    if len(sparse) == 2:
        raise InvalidArgument("b: is sparse, and so is a; allowed: one sparse "
                              "operand. The nearest is b.toarray()")
    for name, value, order in sparse:
        if value.order != order:
            along = ("its columns", "-1") if name == "a" else ("its rows", "-2")
            raise InvalidArgument(
                f"{name}: is sparse along {along[0]}; allowed: along k, as "
                f"sparse24({name}, axis={along[1]}) makes it")
        if is_mixed(a.dtype, b.dtype):
            raise Unimplemented(
                f"{name}: is sparse, and of other elements than the other "
                "operand; served: two operands of one kind. The nearest is "
                f"{name}.toarray()")
        if _name(value.dtype) == "float32" and precision is None:
            raise Unimplemented(
                f"precision: None does not go with {name}, which is sparse and "
                "float32; served: 'tf32', 'fast'")


def check_quantized(a: Any, b: Any) -> None:
    """Which operands may be quantized, and how they lie."""
    for name, value, other, order in (("a", a, b, "C"), ("b", b, a, "F")):
        if getattr(value, "quantization", None) is None:
            continue
        if not is_mixed(value.dtype, other.dtype):
            raise InvalidArgument(
                f"{name}: is quantized {_name(value.dtype)}, and the other "
                f"operand is {_name(other.dtype)}; allowed: "
                f"{', '.join(_WIDENED_TO)}")
        if value.order != order:
            along = ("its columns", "-1") if name == "a" else ("its rows", "-2")
            raise InvalidArgument(
                f"{name}: is quantized along {along[0]}; allowed: along k, as "
                f"quantize({name}, axis={along[1]}) makes it")


def _wider(a: "np.dtype[Any]", b: "np.dtype[Any]") -> str:
    """Name of a type that both may have and that holds the values of both."""
    try:
        name = _name(np.result_type(a, b))
    except TypeError:
        return "float32"
    # ml_dtypes promotes integers to float8, which does not hold them all.
    return name if name in _partners(name) and name not in _FP8 else "float32"


def _nearest_pair(a: "np.dtype[Any]", b: "np.dtype[Any]") -> str:
    """How to convert what does not go together, without loss."""
    wide = _wider(a, b)
    module = "ml_dtypes" if wide == "bfloat16" else "np"
    return " with ".join(
        f"{side}.astype({module}.{wide})"
        for side, dtype in (("a", a), ("b", b)) if _name(dtype) != wide)


def check_pair(a: Any, b: Any) -> None:
    if _name(b) not in _partners(a):
        raise Unimplemented(
            f"b: {_name(b)} does not go with a of {_name(a)}; served with it: "
            f"{', '.join(_partners(a))}. The nearest is {_nearest_pair(a, b)}")


def check_output(a: Any, dtype: Any, name: str) -> None:
    if _name(dtype) not in outputs(a):
        raise Unimplemented(
            f"{name}: {_name(dtype)} is no result of {_name(a)}; served: "
            f"{', '.join(outputs(a))}. The nearest is "
            f"{_name(default_output(a))}")


def check_c(c: Any, dtype: Any) -> None:
    allowed = [_name(dtype)]
    if _name(dtype) not in ("int32", "float32"):
        allowed.append("float32")
    if _name(c) not in allowed:
        raise InvalidArgument(
            f"c: dtype {_name(c)} is not that of the result; allowed: "
            f"{', '.join(allowed)}")


def _sums_in_f16(accumulate: Any) -> bool:
    return accumulate is not None and _name(accumulate) == "float16"


def accumulator(a: Any, asked: Any, mixed: bool) -> str:
    """Wire name of the type of the sum; `mixed`: of widened weights."""
    if asked is None:
        return "ACCUMULATOR_UNSPECIFIED"
    allowed = {"float32": "F32"}
    if _sums_are_integers(a):
        allowed = {"int32": "S32"}
    elif not mixed and (_name(a) == "float16" or _name(a) in _FP8):
        allowed["float16"] = "F16"
    try:
        kind = allowed.get(_name(asked))
    except NO_TYPE:
        kind = None
    if kind is None:
        raise Unimplemented(
            f"accumulate: {asked!r} is no sum of {_name(a)}"
            f"{' and widened weights' if mixed else ''}; served: "
            f"{', '.join(allowed)}")
    return f"ACCUMULATOR_{kind}"


def _choice(field: str, asked: Optional[str],
            allowed: dict[Optional[str], str],
            a: Any, how: str = "") -> str:
    if not isinstance(asked, (str, type(None))) or asked not in allowed:
        raise InvalidArgument(
            f"{field}: {asked!r} does not go with {_name(a)}{how}; allowed: "
            f"{', '.join(map(repr, allowed))}")
    return allowed[asked]


def precision(a: Any, asked: Optional[str], accumulate: Any) -> str:
    """Wire name of the precision."""
    allowed: dict[Optional[str], str] = {None: "PRECISION_UNSPECIFIED"}
    if _name(a) == "float32":
        allowed["tf32"] = "PRECISION_TF32"
    in_f16 = _sums_in_f16(accumulate)
    if _name(a) == "float32" or _name(a) in _FP8 and not in_f16:
        allowed["fast"] = "PRECISION_FAST"
    return _choice("precision", asked, allowed, a,
                   " summed in float16" if in_f16 else "")


def check_saturate(a: Any, asked: bool) -> None:
    if asked and _name(a) not in _INTEGERS:
        raise InvalidArgument(
            f"saturate: sums of {_name(a)} do not; allowed: False, and True "
            f"with {', '.join(_INTEGERS)}")


def check_steps(result: Any, alpha: float, beta: float,
                **given: bool) -> None:
    """A result of int32 is computed in integers: it has no other steps."""
    if _name(result) != "int32":
        return
    nearest = "The nearest is out_dtype=np.float32"
    for name, number in (("alpha", alpha), ("beta", beta)):
        if number not in (0, 1):
            raise InvalidArgument(
                f"{name}: {number:g} does not go with a result of int32; "
                f"allowed: 0, 1. {nearest}")
    for name, is_given in given.items():
        if is_given:
            raise Unimplemented(f"{name}: a result of int32 is computed in "
                                f"integers and has none. {nearest}")


def check_block_scales(a: Any, accumulate: Any, precision: Optional[str],
                       sparse: bool) -> None:
    if sparse:
        raise Unimplemented("a_scale: by blocks does not go with a sparse "
                            "operand. The nearest is one value a row")
    if _name(a) not in _FP8:
        raise Unimplemented(
            f"a_scale: by blocks does not go with {_name(a)}; served with "
            f"{', '.join(_FP8)}. The nearest is one value a row")
    if precision is not None or _sums_in_f16(accumulate):
        name = "accumulate" if precision is None else "precision"
        raise Unimplemented(
            f"{name}: does not go with scales by blocks, which are factors of "
            "sums of 128 in float32; leave it out")


def activation(a: Any, asked: Optional[str]) -> str:
    """Wire name of the activation."""
    return _choice("activation", asked, {
        None: "ACTIVATION_UNSPECIFIED", "relu": "ACTIVATION_RELU",
        "gelu": "ACTIVATION_GELU_ERF", "gelu_tanh": "ACTIVATION_GELU_TANH",
        "silu": "ACTIVATION_SILU"}, a)


def bit_operation(a: Any, asked: Optional[str]) -> str:
    """Wire name of the operation on bits."""
    allowed: dict[Optional[str], str] = {None: "BIT_OPERATION_UNSPECIFIED"}
    if _name(a) == "bool":
        allowed["and"] = "BIT_OPERATION_AND"
        allowed["xor"] = "BIT_OPERATION_XOR"
    return _choice("bits", asked, allowed, a)
