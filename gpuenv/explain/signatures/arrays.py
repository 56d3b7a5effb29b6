"""Messages of CuPy and others about arrays of another device, kind or type, or unlike those of NumPy."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_CUPY = "CuPy"


def _argument_weights(values: Mapping[str, str]) -> Weights:
    """A host array was not moved; a list or a number is what NumPy would have taken."""
    if values["got"].split(".")[0] in ("numpy", "pandas", "torch"):
        return ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.88), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.06))
    return ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.7), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.2))


SIGNATURES = (
    Signature(
        "numpy.array-function",
        "NumPy, of CuPy's arrays",
        ("__array_function__", "__array_ufunc__"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.45), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.4)),
        "NumPy, core/overrides.py and NEP 18: no type of the arguments takes the call",
        pattern=r"no implementation found for 'numpy\.\S+' on types that implement __array_function__|all returned NotImplemented from __array_ufunc__",
        title="NumPy's function was called with a GPU array that has none like it, or with arrays of both kinds",
        requires=("cupy",),
        decisive_fact="whether host and device arrays are mixed in that call",
    ),
    Signature(
        "numpy.cast-rule",
        "NumPy and CuPy",
        ("according to the rule", "with casting rule"),
        ((Cause.DTYPE_MISMATCH, 0.74),),
        "NumPy, casting; CuPy, _core/_routines_manipulation.pyx",
        pattern=r"Cannot cast (?:array data|scalar) from.* (?:according to the rule|with casting rule)",
        title="The types of the arrays do not agree",
        modifiers=(
            Modifier("numpy-does", Cause.CUPY_BUG, 20),
            Modifier("numpy-does", Cause.NUMPY_SEMANTICS_DIFFERENCE, 12),
            Modifier("numpy-does", Cause.DTYPE_MISMATCH, 0.3),
        ),
        requires=("cupy",),
    ),
    Signature(
        "cupy.implicit-conversion",
        _CUPY,
        ("implicit conversion to a", "method not producing an array", "has no attribute '__array_"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.95),),
        "CuPy, _core/core.pyx: __array__; cudf, frame.py",
        pattern=r"implicit conversion to a|method not producing an array|ndarray' object has no attribute '__array_(?:interface|struct)__'",
        title="A GPU array was handed to code that wants a NumPy array",
        # Only CuPy runs there.
        modifiers=(Modifier("cupy-given-cupy", Cause.CUPY_BUG, 14),),
    ),
    Signature(
        "cupy.unsupported-type",
        _CUPY,
        ("unsupported type",),
        (
            (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.76),
            (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.12),
            (Cause.CUPY_BUG, 0.05),
        ),
        "CuPy, _core/_kernel.pyx: _preprocess_args",
        pattern=r"Unsupported type <(?:class|type) '(?:numpy\.\w+|pandas\.\S+|torch\.Tensor)'>",
        title="A host array was handed to a function of CuPy",
    ),
    Signature(
        "cupy.argument-type",
        "Cython, of CuPy's functions",
        ("has incorrect type (expected cupy", "has incorrect type (expected _ndarray"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.88),),
        "Cython, Utility/FunctionArguments.c: ArgTypeTest",
        pattern=r"has incorrect type \(expected (?:cupy[\w.]*\.)?\w*ndarray\w*, got (?P<got>[\w.]+)\)",
        title="A function of CuPy was given a {got} in place of a GPU array",
        weights_fn=_argument_weights,
    ),
    Signature(
        "cupy.unsupported-list",
        _CUPY,
        (
            "unsupported type",
            "invalid index type",
            "expected cupy",
            "does not support",
            "only supports",
            "unsupported dtype",
        ),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.82),),
        "CuPy, _core/_kernel.pyx and core.pyx; CuPy documentation, Differences between CuPy and NumPy",
        pattern=(
            r"(?:Unsupported|Invalid index) type:? <(?:class|type) '(?:list|tuple|str|range|NoneType|object|dict|set)'>|Unsupported dtype (?:object|<U\d*|\|S\d*|datetime\S*|\[|O)"
            r"|cupy\S* (?:does not|doesn't|do not) (?:yet )?support(?! bfloat)|only cupy\.ndarray\S* (?:is|are) supported"
            r"|(?:operands?|arguments?|inputs?) must be (?:a )?cupy\.ndarray"
        ),
        title="NumPy does this, CuPy does not or does it differently",
    ),
    Signature(
        "cupy.host-array-refused",
        _CUPY,
        ("non-scalar numpy",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.7), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.2)),
        "CuPy, _core/core.pyx: fill",
        title="An array of NumPy's is given to one on the GPU",
    ),
    Signature(
        "cupy.semantics",
        "CuPy's arrays in code written for NumPy",
        ("cupy",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.68), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.12)),
        "CuPy documentation, Differences between CuPy and NumPy: zero-dimensional arrays, indices, lists",
        pattern=(
            r"'cupy\.(?:_core\.core\.|core\.core\.)?ndarray' object (?:cannot be interpreted|is not (?:iterable|callable|subscriptable)|has no attribute(?! '__array_))"
            r"|(?:only integer scalar arrays|index arrays|list indices).{0,60}cupy|NotImplementedError:.{0,80}\bcupy\b|cupy\S*.{0,60}NotImplementedError"
            r"|cupy\.\w+(?:\.\w+)* is not (?:implemented|supported)|unhashable type: 'cupy"
            r"|unsupported format string passed to cupy[\w.]*|type cupy[\w.]* doesn't define __\w+__ method"
        ),
    ),
    Signature(
        "cupy.cross-device",
        _CUPY,
        ("array device must be same", "different from the current device", "device where the array resides"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.95),),
        "CuPy, _core/_kernel.pyx: _check_peer_access and _preprocess_args",
        pattern=r"Array device must be same as the current device|device where the array resides .*is different from the current",
        title="An array of one GPU is used while another is current",
    ),
    Signature(
        "cupy.type-mismatch",
        "CuPy",
        (
            "type is mismatched",
            "ufunctypeerror",
            "cannot cast",
            "scalar type",
            "same dtype",
            "wrong dtype",
        ),
        ((Cause.DTYPE_MISMATCH, 0.82),),
        "CuPy, _core/_kernel.pyx: _guess_typenums; torch, Tensor type checks",
        pattern=(
            r"Type is mismatched\.? .*<class|cupy.{0,80}(?:Cannot cast|can't cast)|(?:Cannot cast|can't cast).{0,80}cupy"
            r"|expected (?:scalar type|mat1 and mat2|m1 and m2).{0,60}(?:same dtype|but found|but got|got)|Input type \(torch\.cuda\.\w+\) and weight type \(torch\.cuda\.\w+\) should be the same"
            r"|mat1 and mat2 must have the same dtype"
        ),
        title="The types of the arrays do not agree",
    ),
    Signature(
        "cupy.no-loop",
        "CuPy",
        ("wrong type (",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.48), (Cause.DTYPE_MISMATCH, 0.42)),
        "CuPy, core/elementwise.pxi and _core/_kernel.pyx: _guess_routine, for types that the function has no code for",
        pattern=r"Wrong type \(.{0,200}\) of arguments for cupyx?_?\w+",
        title="A function of CuPy has no code for these types; NumPy's may",
        modifiers=(Modifier("numpy-does", Cause.NUMPY_SEMANTICS_DIFFERENCE, 3),),
        decisive_fact="whether NumPy takes the same types there",
    ),
    Signature(
        "cupy.rawkernel-type",
        "CuPy",
        ("float", "double", "dtype"),
        ((Cause.DTYPE_MISMATCH, 0.7),),
        "CuPy documentation, User-Defined Kernels: Kernel Arguments",
        pattern=(
            r"RawKernel.{0,80}(?:Python )?floats? .{0,40}(?:double|float64)|kernel argument.{0,60}(?:dtype|type) (?:does not match|mismatch)"
            r"|cupy.{0,60}dtypes? (?:must match|do not match|mismatch|not (?:the )?same)|dtype mismatch.{0,60}(?:cupy|cuda|gpu)"
        ),
    ),
    Signature(
        "opencv.host-array",
        "OpenCV",
        ("is not a numpy array, neither a scalar",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.8),),
        "opencv, modules/python/src2/cv2_convert.cpp",
        title="A GPU array was handed to code that wants a NumPy array",
        requires=("cupy", "cuda"),
    ),
    Signature(
        "cupy.array-api-dtype",
        _CUPY,
        ("dtypes are allowed in",),
        ((Cause.DTYPE_MISMATCH, 0.82),),
        "CuPy 11 to 13, cupy/array_api",
        pattern=r"Only [\w -]+ dtypes are allowed in \w+",
        title="The function takes no arrays of this type",
        requires=("cupy",),
    ),
)
