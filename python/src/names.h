/* names.h -- a front end is a table of names: what Python users type, which function of weft.h that is, with which arguments and
 * defaults. Functions of the module, methods of the array, signatures, docstrings and the C names in messages come from the table;
 * stubs and exports are compared with it by a test. Another front end over the same arrays is another table, and brings the
 * conventions it has of its own as functions of type name_call.
 *
 * A row is called with one object for each parameter of its signature, in order: what was passed, or the default. The parameter
 * *rest gets a tuple. Parameters with these names are not the row's matter: its result is taken to the device, and it runs where
 * the stream is (place.c). */
#ifndef WEFT_PYTHON_NAMES_H
#define WEFT_PYTHON_NAMES_H
#include "core.h"

struct name;
typedef weft_array *name_call(const struct name *, PyObject *const arg[]); /* inside op_begin and op_end */
typedef PyObject *name_made(const struct name *, PyObject *const arg[]);   /* what is no single array */

struct name {
  const char *name, *signature;  /* "sum", "(a, /, axis=None, keepdims=False)": as inspect.signature shows it */
  const char *c;                 /* "weft_sum"; "": it is composed of several, or Python's own */
  void (*function)(void);        /* what call calls, if it serves many rows; what type it has is call's matter */
  name_call *call;
  name_made *made;               /* if call is NULL */
  int is_method;                 /* of the array, which is the first argument; 2: and no function */
  const char *doc, *example, *result; /* the example as one types it after weft., and what tolist() then is. NULL: as weft's row of
                                         the same name has it, if there is one */
};

extern const struct name linalg_names[], weft_names[], random_names[]; /* end with a row without a name */
extern const struct name mlx_names[];                  /* of weft.mlx.core */

int names_install(const struct name *, PyObject *module, PyTypeObject *array, const char *package); /* functions and methods */
int mlx_add(PyObject *module);   /* mlx.c: the module _mlx in it, with arrays, dtypes and names as MLX has them */
int names_public(const char *name, size_t n); /* whether it is the name of a function, perhaps with a module: "random.normal" */
const char *names_of_c(const char *c, size_t n); /* the public name of weft_ and these n characters; NULL: it has none */

/* What rows call, by the file of its family. */
name_call call_unary, call_binary, call_ternary, call_hyp2f1, call_positive, call_clip, call_round, call_degrees, call_radians;
name_call call_isclose, call_array_equal;
name_made make_divmod, make_meshgrid;
name_call call_diff, call_ediff1d, call_trapezoid, call_interp, call_convolve, call_nan_to_num, call_rot90;
name_call call_reduce, call_reduce_in, call_arg, call_running, call_running_in, call_softmax, call_log_softmax;
name_call call_var, call_var_corrected;
name_call call_sort, call_sort_either, call_rank, call_quantile, call_searchsorted, call_searchsorted_by;
name_call call_size, call_sized, call_window, call_windows, call_conv;
name_call call_reshape, call_broadcast_to, call_transpose, call_moveaxis, call_swapaxes, call_squeeze, call_expand_dims;
name_call call_flatten, call_ravel, call_flip, call_astype, call_join, call_as_strided, call_pad, call_repeat, call_tile, call_roll;
name_call call_diag, call_diagonal, call_trace, call_triangle;
name_made make_split, make_nonzero, make_unique;
name_call call_full, call_zeros, call_ones, call_full_like, call_zeros_like, call_ones_like;
name_call call_arange, call_linspace, call_eye, call_identity, call_rms_norm, call_layer_norm, call_attention;
name_made make_asarray, make_result_type;
name_call call_take, call_take_along, call_put_along;
PyObject *einsum_path(PyObject *, PyObject *);
name_call call_einsum, call_tensordot, call_dot, call_addmm3, call_matrix_power, call_gather_mm, call_block_masked_mm;
name_call call_view_as, call_to_f8, call_from_f8;
name_call call_bincount, call_digitize, call_histogram_bin_edges;
name_made make_histogram, make_histogram2d, make_histogramdd;
name_call call_hadamard, call_fft, call_irfft, call_rope, call_pool, call_pad_ends, call_resize, call_softmax_where, call_logsumexp;
name_call call_dequantize, call_quantized_matmul, call_gather_qmm;
name_made make_quantize;
name_call call_assert, call_depends, call_to_device;
name_made make_from_dlpack;

#endif
