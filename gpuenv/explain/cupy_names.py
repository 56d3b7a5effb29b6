"""The names of the module ``cupy``, release by release: what none ever lacked, and what came or went.

Read from ``cupy/__init__.py`` and the folders of the wheels cupy-cuda101 7.8.0, cupy-cuda102 8.6.0, 9.6.0 and 10.6.0,
cupy-cuda11x 11.6.0 and 12.3.0, cupy-cuda12x 13.6.0 and 14.2.0, on 2026-11-21, and of cupy-cuda80 4.0.0 and cupy-cuda92
4.5.0, 5.4.0 and 6.7.0 on 2026-11-22. Pure data.
"""

from __future__ import annotations

_EVER = """
ElementwiseKernel RawKernel RawModule ReductionKernel __version__ abs absolute add all allclose amax amin angle any
arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort around array
array_repr array_split array_str asanyarray asarray ascontiguousarray asfortranarray asnumpy atleast_1d atleast_2d
atleast_3d average base_repr binary_repr bincount bitwise_and bitwise_or bitwise_xor blackman bool_ broadcast
broadcast_arrays broadcast_to byte c_ can_cast cbrt ceil choose clear_memo clip column_stack common_type complex128
complex64 complexfloating concatenate conj copy copysign copyto corrcoef cos cosh count_nonzero cov cross csingle
cuda cumprod cumsum default_float_dtype deg2rad degrees diag diagflat diagonal diff
disable_experimental_feature_warning divide divmod dot double dsplit dstack dtype dtypes e einsum empty empty_like
equal euler_gamma exp exp2 expand_dims expm1 eye fft fill_diagonal finfo flatnonzero flip fliplr flipud float16
float32 float64 floating floor floor_divide fmax fmin fmod frexp fromfile full full_like fuse generic
get_array_module get_default_memory_pool get_default_pinned_memory_pool greater greater_equal half hamming hanning
histogram hsplit hstack hypot i0 identity iinfo imag indices inexact inf inner int16 int32 int64 int8 int_ intc
integer intp invert is_available isclose iscomplex iscomplexobj isfinite isfortran isin isinf isnan isreal isrealobj
isscalar issubdtype ix_ kron ldexp left_shift less less_equal lexsort lib linalg linspace load log log10 log1p log2
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace longlong matmul max maximum
may_share_memory mean memoize meshgrid mgrid min min_scalar_type minimum mintypecode mod modf moveaxis multiply nan
nan_to_num nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar ndarray negative newaxis nextafter
nonzero not_equal number ogrid ones ones_like outer packbits pad partition percentile pi place power prod
promote_types put r_ rad2deg radians random ravel real reciprocal remainder repeat reshape result_type right_shift
rint roll rollaxis rot90 save savez savez_compressed searchsorted shares_memory short show_config sign signbit
signedinteger sin sinc single sinh size sort split sqrt square squeeze stack std subtract sum swapaxes take
take_along_axis tan tanh tensordot testing tile trace transpose tri tril triu true_divide trunc typename ubyte ufunc
uint uint16 uint32 uint64 uint8 uintc uintp ulonglong unique unpackbits unravel_index unsignedinteger unwrap ushort
var vdot vsplit vstack where zeros zeros_like
"""
EVER = frozenset(_EVER.split())
"""In every release since 7: where one is missing, files of CuPy are."""

_SINCE_LONG = """
RawKernel RawModule allclose around average cbrt corrcoef cov cross diff divmod fromfile histogram i0 isin
may_share_memory nan_to_num nanargmax nanargmin nanmean nanprod nanstd nansum nanvar place put searchsorted
shares_memory sinc take_along_axis tri tril triu unique unwrap
"""
SINCE_LONG = frozenset(_SINCE_LONG.split())
"""Of these, what came with 4.5 to 7: where one is missing, the release may be that old."""

_SOMETIMES = """
AxisError ComplexWarning DataSource MachAr ModuleDeprecationWarning RankWarning TooHardError
VisibleDeprecationWarning _core acos acosh alltrue append apply_along_axis apply_over_axes argwhere array2string
array_api array_equal array_equiv asarray_chkfinite asfarray asin asinh astype atan atan2 atanh bartlett binary
bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_right_shift bool bool8 broadcast_shapes
byte_bounds cdouble cfloat complex compress concat conjugate convolve core correlate creation cublas cudnn
cumproduct cumulative_prod cumulative_sum cupyx cusolver cusparse cutensor delete diag_indices diag_indices_from
digitize disp ediff1d exceptions ext extract fabs flatiter float float_power format_float_positional
format_float_scientific from_dlpack frombuffer fromfunction fromiter fromstring gcd genfromtxt get_array_wrap
get_printoptions gradient heaviside histogram2d histogramdd index_exp indexing int int0 interp intersect1d io
isdtype isneginf isposinf iterable kaiser lcm loadtxt logic long longfloat make_aligned_dtype manipulation
mask_indices matrix_transpose median misc nancumprod nancumsum nanmedian ndim ndindex padding permute_dims piecewise
poly poly1d polyadd polyfit polymul polynomial polysub polyval positive pow printoptions product prof ptp
put_along_axis putmask quantile ravel_multi_index real_if_close require resize roots round row_stack s_ safe_eval
savetxt scatter_add sctype select set_printoptions set_string_function setdiff1d setxor1d shape singlecomplex
sometrue sort_complex sorting sparse statistics trapezoid trapz tril_indices tril_indices_from trim_zeros
triu_indices triu_indices_from typing uint0 ulong union1d unique_all unique_counts unique_inverse unique_values util
vander vectorize who
"""
SOMETIMES = frozenset(_SOMETIMES.split())
"""In some releases only: where one is missing, the release is another than the program wants."""
