/* linalg.c -- the names of weft.linalg: systems of linear equations. */
#include "names.h"

/* (a, b, lower, unit_diagonal) */
static weft_array *call_triangular(const struct name *row, PyObject *const arg[]) {
  int is_lower = PyObject_IsTrue(arg[2]), is_unit = PyObject_IsTrue(arg[3]);
  weft_array *a[2];
  (void)row;
  return is_lower < 0 || is_unit < 0 || !convert_arrays(2, arg, a) ? NULL : weft_solve_triangular(a[0], a[1], !is_lower, is_unit);
}

/* (a, upper): the lower factor, or its transpose */
static weft_array *call_cholesky(const struct name *row, PyObject *const arg[]) {
  int is_upper = PyObject_IsTrue(arg[1]);
  weft_array *l = is_upper < 0 ? NULL : call_unary(row, arg);
  int rank = l ? weft_rank(l) : 0, order[WEFT_RANK_MAX];
  if (!is_upper || rank < 2) return l;
  for (int i = 0; i < rank; i++) order[i] = i;
  order[rank - 2] = rank - 1, order[rank - 1] = rank - 2;
  return weft_transpose(l, order);
}

static PyStructSequence_Field parts[] = { { "sign", "of the determinant" }, { "logabsdet", "the logarithm of its size" }, { 0 } };
static PyStructSequence_Desc slogdet = { "weft.linalg.slogdet", "the sign and the size of a determinant", parts, 2 };

static PyObject *named_pair(PyObject *list) {
  static PyTypeObject *type; /* as long as the process */
  if (!type && !(type = PyStructSequence_NewType(&slogdet))) return NULL;
  PyObject *pair = PyStructSequence_New(type);
  for (int i = 0; pair && i < 2; i++) PyStructSequence_SET_ITEM(pair, i, Py_NewRef(PyList_GET_ITEM(list, i)));
  return pair;
}

/* (a): the sign and the logarithm */
static PyObject *make_slogdet(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *a = convert_array(arg[0], NULL, 0), *out[2];
  PyObject *list = NULL, *pair = NULL;
  (void)row;
  if (a) {
    weft_slogdet(a, &out[0], &out[1]);
    list = array_list(flavour(), 2, out);
  }
  weft_scope_discard(s);
  if (list) pair = named_pair(list);
  Py_XDECREF(list);
  return pair;
}

#define ONE(name, c, doc, example, result) \
  { #name, "(a, /)", #c, (void (*)(void))c, call_unary, NULL, 0, doc, example, result }

const struct name linalg_names[] = {
  { "cholesky", "(a, /, *, upper=False)", "weft_cholesky", (void (*)(void))weft_cholesky, call_cholesky, NULL, 0,
      "the lower L with L L' = a, of which the lower triangle is read, or the upper L'; nan if a is not positive definite",
      "cholesky([[4.0, 9.0], [2.0, 5.0]])", "[[2.0, 0.0], [1.0, 2.0]]" },
  ONE(cholesky_status, weft_cholesky_status, "0, or the number, from 1, of the leading minor that is not positive",
      "cholesky_status([[1.0, 2.0], [2.0, 1.0]])", "2"),
  { "cholesky_solve", "(l, b, /)", "weft_cholesky_solve", (void (*)(void))weft_cholesky_solve, call_binary, NULL, 0,
    "x with l l' x = b, of a lower l, of one right side [n] or several [.., n, m]; nan if the diagonal of l has a 0",
    "cholesky_solve([[2.0, 0.0], [0.0, 1.0]], [4.0, 2.0])", "[1.0, 2.0]" },
  { "solve", "(a, b, /)", "weft_solve", (void (*)(void))weft_solve, call_binary, NULL, 0,
    "x with a x = b, of one right side [n] or several [.., n, m]; nan if a is singular",
    "solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])", "[1.0, 0.5]" },
  { "solve_triangular", "(a, b, /, lower=False, unit_diagonal=False)", "weft_solve_triangular",
    (void (*)(void))weft_solve_triangular, call_triangular, NULL, 0,
    "x with t x = b, for a triangle t of a, which is all that is read; nan if its diagonal has a 0",
    "solve_triangular([[2.0, 9.0], [1.0, 4.0]], [2.0, 5.0], lower=True)", "[1.0, 1.0]" },
  ONE(solve_triangular_status, weft_solve_triangular_status,
      "0, or the number, from 1, of the first element of the diagonal that is 0 or nan; of cholesky_solve too",
      "solve_triangular_status([[1.0, 0.0], [2.0, 0.0]])", "2"),
  ONE(inv, weft_inverse, "the inverse; nan if a is singular", "inv([[2.0, 0.0], [0.0, 4.0]])", "[[0.5, 0.0], [0.0, 0.25]]"),
  ONE(inv_status, weft_inverse_status, "0, or the number, from 1, of the pivot that is 0 or nan", "inv_status([[0.0]])", "1"),
  ONE(det, weft_det, "the determinant", "det([[1.0, 2.0], [3.0, 4.0]])", "-2.0"),
  { "slogdet", "(a, /)", "weft_slogdet", NULL, NULL, make_slogdet, 0, "the sign of the determinant, and the logarithm of its size",
    "slogdet([[-1.0]])[0]", "-1.0" },
  { 0 },
};
