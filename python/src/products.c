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
  if (failed) PyErr_SetString(PyExc_ValueError, "tensordot: axes are a number or two sequences");
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
  if (!convert_all(2, arg, a) || pairs_of(arg[2], weft_rank(a[0]), &n, i, j)) return NULL;
  return weft_tensordot(a[0], a[1], n, i, j);
}

/* (a, b): a_i b_j, of flattened arrays */
weft_array *call_outer(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  (void)row;
  if (!convert_all(2, arg, a)) return NULL;
  return weft_mul(weft_reshape(a[0], 2, (int64_t[]){ WEFT_ANY, 1 }), weft_reshape(a[1], 2, (int64_t[]){ 1, WEFT_ANY }));
}

/* (a, b): the last axis of a with the last but one of b, or its only one; numbers multiply */
weft_array *call_dot(const struct name *row, PyObject *const arg[]) {
  weft_array *a[2];
  (void)row;
  if (!convert_all(2, arg, a)) return NULL;
  int left = weft_rank(a[0]), right = weft_rank(a[1]);
  if (!left || !right) return weft_mul(a[0], a[1]);
  if (left <= 2 && right <= 2) return weft_matmul(a[0], a[1]);
  return weft_tensordot(a[0], a[1], 1, (int[]){ left - 1 }, (int[]){ right > 1 ? right - 2 : 0 });
}

/* ---- Convolution ---- */

/* What each of n axes is given: one number for all, or one for each. */
static int for_each_axis(PyObject *o, const char *what, int n, int64_t value[]) {
  int count;
  if (convert_shape(o, &count, value)) return -1;
  if (convert_is_index(o))
    for (count = 1; count < n; count++) value[count] = value[0];
  else if (count != n) return PyErr_Format(PyExc_ValueError, "conv: %s is one number, or one for each of %d axes", what, n), -1;
  return 0;
}

/* Zeros before and after each of n axes: one number for all, or for each axis a number or a pair. */
static int paddings(PyObject *o, int n, int64_t before[], int64_t after[]) {
  int64_t pair[WEFT_RANK_MAX];
  int count = 1, failed = 0;
  PyObject *each = convert_is_index(o) ? NULL : PySequence_Fast(o, "conv: padding is one number, or for each axis one or a pair");
  if (!each && PyErr_Occurred()) return -1;
  if (each && PySequence_Fast_GET_SIZE(each) != n)
    failed = (PyErr_Format(PyExc_ValueError, "conv: padding is one number, or for each of %d axes one or a pair", n), 1);
  for (int k = 0; k < n && !failed; k++) {
    failed = convert_shape(each ? PySequence_Fast_GET_ITEM(each, k) : o, &count, pair);
    if (!failed && (count < 1 || count > 2))
      failed = (PyErr_Format(PyExc_ValueError, "conv: a pair of paddings, not %d", count), 1);
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
  if (how.is_flipped < 0 || !convert_all(2, arg, a)) return NULL;
  int n = weft_rank(a[0]) > 2 ? weft_rank(a[0]) - 2 : 0;
  if (for_each_axis(arg[2], "the stride", n, stride) || paddings(arg[3], n, before, after)) return NULL;
  if (for_each_axis(arg[4], "the dilation", n, dilation) || for_each_axis(arg[7], "the spread", n, spread)) return NULL;
  if (convert_integer(arg[5], &how.groups)) return NULL;
  if (how.groups < 1) return PyErr_Format(PyExc_ValueError, "conv: %lld groups", (long long)how.groups), NULL;
  return weft_conv(a[0], a[1], &how);
}
