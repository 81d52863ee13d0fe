/* products.c -- sums of products over named or numbered axes. */
#include "names.h"

/* (subscripts, *operands) */
weft_array *call_einsum(const struct name *row, PyObject *const arg[]) {
  const char *text = PyUnicode_Check(arg[0]) ? PyUnicode_AsUTF8(arg[0]) : NULL;
  struct list l;
  (void)row;
  if (!text && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "einsum: the first argument is a text like \"ij,jk->ik\"");
  if (!text || list_take(&l, arg[1])) return NULL;
  weft_array *result = weft_einsum(text, l.n, l.array);
  list_drop(&l);
  return result;
}

/* einsum_path(subscripts, operands): the pairs, and multiplications in all. */
PyObject *einsum_path(PyObject *module, PyObject *args) {
  const char *text;
  PyObject *operands, *list;
  struct list l;
  int pairs[32][2]; /* as many operands there may be at most */
  double products = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "sO", &text, &operands) || list_take(&l, operands)) return NULL;
  weft_scope *scope = op_begin();
  weft_status s = weft_einsum_path(text, l.n, l.array, pairs, &products);
  if (s) raise_status(s);
  weft_scope_discard(scope);
  int n = l.n;
  list_drop(&l);
  if (s || !(list = PyList_New(n - 1))) return NULL;
  for (int i = 0; i < n - 1; i++) {
    PyObject *pair = Py_BuildValue("(ii)", pairs[i][0], pairs[i][1]);
    if (!pair) return Py_DECREF(list), NULL;
    PyList_SET_ITEM(list, i, pair);
  }
  return Py_BuildValue("(Nd)", list, products);
}

/* Axes of one operand: a number or several. */
static int axes_of(PyObject *o, int *n, int axes[]) {
  int64_t axis[WEFT_RANK_MAX];
  if (convert_shape(o, n, axis)) return -1;
  for (int i = 0; i < *n; i++) axes[i] = axis[i] > 1000 || axis[i] < -1000 ? 1000 : (int)axis[i];
  return 0;
}

/* A number: the last axes of a with the first of b. Else two numbers or sequences. */
static int pairs_of(PyObject *o, int rank, int *n, int i[], int j[]) {
  int64_t count;
  int m = 0;
  if (convert_is_index(o)) {
    if (convert_integer(o, &count)) return -1;
    if (count < 0 || count > rank) return PyErr_Format(PyExc_ValueError, "tensordot: %lld axes of %d", (long long)count, rank), -1;
    for (*n = 0; *n < count; ++*n) i[*n] = rank - (int)count + *n, j[*n] = *n;
    return 0;
  }
  PyObject *both = PySequence_Fast(o, "tensordot: axes are a number or two sequences");
  if (!both) return -1;
  int failed = PySequence_Fast_GET_SIZE(both) != 2;
  int is_flat = PySequence_Fast_GET_SIZE(both) && !PySequence_Check(PySequence_Fast_GET_ITEM(both, 0));
  PyObject *kind = is_flat && flavour() == &mlx_array_type ? PyExc_TypeError : PyExc_ValueError;
  if (failed) PyErr_SetString(kind, "tensordot: axes are a number or two sequences");
  else failed = axes_of(PySequence_Fast_GET_ITEM(both, 0), n, i) || axes_of(PySequence_Fast_GET_ITEM(both, 1), &m, j);
  Py_DECREF(both);
  if (!failed && *n != m) failed = (PyErr_Format(PyExc_ValueError, "tensordot: %d axes of a, %d of b", *n, m), 1);
  return failed ? -1 : 0;
}

/* (a, b, axes) */
weft_array *call_tensordot(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  int n, i[WEFT_RANK_MAX], j[WEFT_RANK_MAX];
  (void)row;
  if (!convert_arrays(2, arg, a) || pairs_of(arg[2], weft_rank(a[0]), &n, i, j)) return NULL;
  return weft_tensordot(a[0], a[1], n, i, j);
}

/* (a, b): the last axis of a with the last but one of b, or its only one; numbers multiply */
weft_array *call_dot(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  (void)row;
  if (!convert_arrays(2, arg, a)) return NULL;
  int left = weft_rank(a[0]), right = weft_rank(a[1]);
  if (!left || !right) return weft_mul(a[0], a[1]);
  if (left <= 2 && right <= 2) return weft_matmul(a[0], a[1]);
  return weft_tensordot(a[0], a[1], 1, (int[]){ left - 1 }, (int[]){ right > 1 ? right - 2 : 0 });
}

/* n objects as arrays, NULL for None. */
static int optional(int n, PyObject *const o[], weft_array *a[]) {
  for (int i = 0; i < n; i++) {
    a[i] = o[i] == Py_None ? NULL : convert_operand(o[i]);
    if (o[i] != Py_None && !a[i]) return -1;
  }
  return 0;
}

/* (c, a, b, alpha, beta) */
weft_array *call_addmm3(const struct name *row, PyObject *const arg[]) {
  weft_array *a[3];
  double alpha = PyFloat_AsDouble(arg[3]), beta = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[4]);
  (void)row;
  return PyErr_Occurred() || !convert_arrays(3, arg, a) ? NULL : weft_addmm(a[0], a[1], a[2], alpha, beta);
}

/* (a, n) */
weft_array *call_matrix_power(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int64_t n;
  (void)row;
  return !x || convert_integer(arg[1], &n) ? NULL : weft_matrix_power(x, n);
}

/* (a, b, lhs_indices, rhs_indices) */
weft_array *call_gather_mm(const struct name *row, PyObject *const arg[]) {
  weft_array *a[4];
  (void)row;
  return !convert_arrays(2, arg, a) || optional(2, arg + 2, a + 2) ? NULL : weft_gather_mm(a[0], a[1], a[2], a[3]);
}

/* (a, b, block_size, mask_out, mask_lhs, mask_rhs) */
weft_array *call_block_masked_mm(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2], *mask[3];
  int64_t block;
  (void)row;
  if (!convert_arrays(2, arg, a) || convert_integer(arg[2], &block) || optional(3, arg + 3, mask)) return NULL;
  return weft_block_masked_mm(a[0], a[1], block, mask[0], mask[1], mask[2]);
}

/* (a, scale) */
weft_array *call_hadamard(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  double scale = !x || arg[1] == Py_None ? 0 : PyFloat_AsDouble(arg[1]);
  (void)row;
  return !x || PyErr_Occurred() ? NULL : weft_hadamard(x, scale);
}

/* (a, inverse, scale) */
weft_array *call_fft(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int is_inverse = x ? PyObject_IsTrue(arg[1]) : -1;
  double scale = is_inverse < 0 ? 0 : PyFloat_AsDouble(arg[2]);
  (void)row;
  return is_inverse < 0 || PyErr_Occurred() ? NULL : weft_fft(x, is_inverse, scale);
}

/* (a, n, scale) */
weft_array *call_irfft(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  int64_t n = x ? PyLong_AsLongLong(arg[1]) : 0;
  double scale = !x || PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[2]);
  (void)row;
  return !x || PyErr_Occurred() ? NULL : weft_irfft(x, n, scale);
}

/* (x, dims, traditional, base, scale, offset, freqs) */
weft_array *call_rope(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0);
  weft_rope_options how = { 0 };
  (void)row;
  if (!x || (arg[1] != Py_None && convert_integer(arg[1], &how.dims))) return NULL;
  if ((how.neighbours = PyObject_IsTrue(arg[2])) < 0) return NULL;
  how.base = PyFloat_AsDouble(arg[3]);
  how.scale = PyErr_Occurred() ? 0 : PyFloat_AsDouble(arg[4]);
  if (PyErr_Occurred() || optional(1, arg + 5, &how.offset) || optional(1, arg + 6, &how.periods)) return NULL;
  if (!(how.base > 0) || how.scale == 0)
    return PyErr_SetString(PyExc_ValueError, "rope: the base is above 0, the scale not 0"), NULL;
  return weft_rope(x, &how);
}

/* ---- Convolution ---- */

/* What each of n axes is given: one number for all, or one for each. */
static int for_each_axis_of(const char *fn, PyObject *o, const char *what, int n, int64_t value[]) {
  int count;
  if (convert_shape(o, &count, value)) return -1;
  if (convert_is_index(o))
    for (count = 1; count < n; count++) value[count] = value[0];
  else if (count != n) return PyErr_Format(PyExc_ValueError, "%s: %s is one number, or one for each of %d axes", fn, what, n), -1;
  return 0;
}
static int for_each_axis(PyObject *o, const char *what, int n, int64_t value[]) {
  return for_each_axis_of("conv", o, what, n, value);
}

/* Zeros before and after each of n axes: one number for all, or for each axis a number or a pair. */
static int paddings(PyObject *o, int n, int64_t before[], int64_t after[]) {
  int64_t pair[WEFT_RANK_MAX];
  int count = 1, failed = 0;
  PyObject *each = convert_is_index(o) ? NULL : PySequence_Fast(o, "padding is one number, or for each axis one or a pair");
  if (!each && PyErr_Occurred()) return -1;
  if (each && PySequence_Fast_GET_SIZE(each) != n)
    failed = (PyErr_Format(PyExc_ValueError, "padding is one number, or for each of %d axes one or a pair", n), 1);
  for (int k = 0; k < n && !failed; k++) {
    failed = convert_shape(each ? PySequence_Fast_GET_ITEM(each, k) : o, &count, pair);
    if (!failed && (count < 1 || count > 2))
      failed = (PyErr_Format(PyExc_ValueError, "a pair of paddings, not %d", count), 1);
    if (!failed) before[k] = pair[0], after[k] = pair[count - 1];
  }
  Py_XDECREF(each);
  return failed ? -1 : 0;
}

/* (x, w, stride, padding, dilation, groups, flip, spread) */
weft_array *call_conv(const struct name *row, PyObject *const arg[]) {
  int64_t stride[WEFT_RANK_MAX], before[WEFT_RANK_MAX], after[WEFT_RANK_MAX], dilation[WEFT_RANK_MAX], spread[WEFT_RANK_MAX];
  weft_conv_options how = { stride, dilation, before, after, spread, 1, PyObject_IsTrue(arg[6]) };
  weft_array *a[2];
  (void)row;
  if (how.is_flipped < 0 || !convert_arrays(2, arg, a)) return NULL;
  int n = weft_rank(a[0]) > 2 ? weft_rank(a[0]) - 2 : 0;
  if (for_each_axis(arg[2], "the stride", n, stride) || paddings(arg[3], n, before, after)) return NULL;
  if (for_each_axis(arg[4], "the dilation", n, dilation) || for_each_axis(arg[7], "the spread", n, spread)) return NULL;
  if (convert_integer(arg[5], &how.groups)) return NULL;
  if (how.groups < 1) return PyErr_Format(PyExc_ValueError, "conv: %lld groups", (long long)how.groups), NULL;
  return weft_conv(a[0], a[1], &how);
}

/* (x, size, stride, padding, dilation, count_include_pad): as the row's function does */
weft_array *call_pool(const struct name *row, PyObject *const arg[]) {
  int64_t size[WEFT_RANK_MAX], stride[WEFT_RANK_MAX], before[WEFT_RANK_MAX], after[WEFT_RANK_MAX], dilation[WEFT_RANK_MAX];
  weft_pool_options how = { size, arg[2] == Py_None ? NULL : stride, before, after, dilation, PyObject_IsTrue(arg[5]) == 0 };
  weft_array *x = PyErr_Occurred() ? NULL : convert_array(arg[0], NULL, 0);
  int n = x && weft_rank(x) > 2 ? weft_rank(x) - 2 : 0;
  if (!x || for_each_axis_of(row->name, arg[1], "the size", n, size) || paddings(arg[3], n, before, after)) return NULL;
  if ((arg[2] != Py_None && for_each_axis_of(row->name, arg[2], "the stride", n, stride)) ||
      for_each_axis_of(row->name, arg[4], "the dilation", n, dilation)) return NULL;
  return ((weft_array * (*)(weft_array *, const weft_pool_options *)) row->function)(x, &how);
}

/* ---- Weights of few bits ---- */

/* group_size, bits, mode: None is that of the mode */
static int form_parse(const struct name *row, PyObject *const arg[], weft_code_form *f) {
  static const char *const modes[] = { "affine", "mxfp4", "mxfp8", "nvfp4" };
  const char *mode = PyUnicode_Check(arg[2]) ? PyUnicode_AsUTF8(arg[2]) : NULL;
  int64_t number[2] = { 0, 0 };
  *f = (weft_code_form){ 0 };
  for (int k = 0; k < 2; k++) {
    if (arg[k] != Py_None && convert_integer(arg[k], &number[k])) return -1;
    if (arg[k] != Py_None && (number[k] < 1 || number[k] > 1024)) /* 0 would be that of the mode */
      return PyErr_Format(PyExc_ValueError, "%s: %s=%R", row->name, k ? "bits" : "group_size", arg[k]), -1;
  }
  f->group = (int)number[0], f->bits = (int)number[1];
  for (int k = 0; mode && k < 4; k++)
    if (!strcmp(mode, modes[k])) return f->mode = (weft_code_mode)k, 0;
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s: mode=%R is none of affine, mxfp4, mxfp8, nvfp4", row->name, arg[2]);
  return -1;
}

/* One f32 number, or None. */
static int global_parse(PyObject *o, weft_code_form *f) {
  if (optional(1, &o, &f->global_scale)) return -1;
  while (f->global_scale && weft_rank(f->global_scale) > 0 && weft_dim(f->global_scale, 0) == 1)
    f->global_scale = weft_squeeze(f->global_scale, 0);
  return 0;
}

/* (w, group_size, bits, mode, global_scale) */
PyObject *make_quantize(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *w = convert_array(arg[0], NULL, 0), *out[3];
  weft_code_form form;
  PyObject *list = NULL;
  if (w && !form_parse(row, arg + 1, &form) && !global_parse(arg[4], &form)) {
    weft_quantize(w, &form, &out[0], &out[1], &out[2]);
    list = array_list(flavour(), out[2] ? 3 : 2, out);
  }
  weft_scope_discard(s);
  return list;
}

/* words, scales, and biases or None */
static int codes_parse(PyObject *const arg[], weft_array *a[3]) {
  return !convert_arrays(2, arg, a) || optional(1, arg + 2, a + 2) ? -1 : 0;
}

/* (words, scales, biases, group_size, bits, mode, global_scale, dtype): without one that of scales, or bf16 */
weft_array *call_dequantize(const struct name *row, PyObject *const arg[]) {
  weft_array *a[3];
  weft_code_form form;
  if (codes_parse(arg, a) || form_parse(row, arg + 3, &form) || global_parse(arg[6], &form)) return NULL;
  weft_dtype as = form.mode == WEFT_CODES_AFFINE ? weft_dtype_of(a[1]) : WEFT_BF16;
  if (form.mode == WEFT_CODES_AFFINE && as <= WEFT_I64) as = WEFT_F32; /* scales that the function refuses */
  if (arg[7] != Py_None && dtype_parse(arg[7], &as)) return NULL;
  return weft_dequantize(a[0], a[1], a[2], &form, as);
}

/* (x, words, scales, biases, transpose, group_size, bits, mode) */
weft_array *call_quantized_matmul(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *a[3];
  weft_code_form form;
  int is_transposed = x ? PyObject_IsTrue(arg[4]) : -1;
  if (is_transposed < 0 || codes_parse(arg + 1, a) || form_parse(row, arg + 5, &form)) return NULL;
  return weft_quantized_matmul(x, a[0], a[1], a[2], is_transposed, &form);
}

/* (x, words, scales, biases, lhs_indices, rhs_indices, transpose, group_size, bits, mode, sorted_indices) */
weft_array *call_gather_qmm(const struct name *row, PyObject *const arg[]) {
  weft_array *x = convert_array(arg[0], NULL, 0), *a[3], *at[2];
  weft_code_form form;
  int is_transposed = x ? PyObject_IsTrue(arg[6]) : -1;
  if (is_transposed < 0 || codes_parse(arg + 1, a) || optional(2, arg + 4, at) || form_parse(row, arg + 7, &form)) return NULL;
  return weft_gather_qmm(x, a[0], a[1], a[2], at[0], at[1], is_transposed, &form);
}
