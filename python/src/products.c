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
