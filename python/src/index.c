/* index.c -- x[...] read and written, as in NumPy: integers, slices, None, Ellipsis, integer arrays, boolean masks.
 *
 * Reading makes a view, or a gather from one; writing is reading plus weft_put, so there is one interpretation of an
 * index. A mask is turned into the integers where it is true: numbers, if its values can be had, else as many as will be known
 * when it is computed. A single bool is a mask over a new axis of length 1 where it stands.
 * Where a whole mask is set to something that broadcasts, that is a choice. */
#include "names.h"
#include <string.h>

enum what { INTEGER, SLICE, CUT, NEW, FILL, ARRAY, FLAG };
struct item {
  enum what what;
  Py_ssize_t start, stop, step; /* INTEGER: start */
  weft_array *array;            /* ARRAY, FLAG: integers */
  weft_array *cut[3];           /* CUT: a slice by integers that are computed; NULL: left out */
  int64_t size;                 /* of the axis it is for, plus 1; 0: any. Only a mask says */
};
struct index {
  int n, n_arrays, n_axes, has_fill; /* n_axes: of x, that the items stand for */
  struct item item[2 * WEFT_RANK_MAX + 1];
};

static int too_many(int n, int rank) {
  PyErr_Format(PyExc_IndexError, "an index: there are too many indices: %d for an array of %d axes", n, rank);
  return raised_by(NULL), -1;
}

static int push(struct index *x, struct item item) {
  if (x->n == 2 * WEFT_RANK_MAX) return too_many(x->n + 1, WEFT_RANK_MAX);
  x->item[x->n++] = item;
  x->n_axes += item.what == INTEGER || item.what == SLICE || item.what == CUT || item.what == ARRAY;
  x->n_arrays += item.what == ARRAY || item.what == FLAG;
  return 0;
}

/* ---- Masks ---- */

/* The values of a mask; PyMem_Free them. */
static uint8_t *mask_read(weft_array *mask, int rank, int64_t dims[], size_t *n) {
  *n = 1;
  for (int i = 0; i < rank; i++) {
    dims[i] = weft_dim(mask, i);
    if (dims[i] < 0)
      return PyErr_SetString(PyExc_ValueError, "a mask whose size is not known yet cannot be an index"), NULL;
    *n *= (size_t)dims[i];
  }
  uint8_t *bits = PyMem_Malloc(*n ? *n : 1);
  if (!bits) return (uint8_t *)PyErr_NoMemory();
  if (!evaluate_into(mask, bits, *n)) return bits;
  PyMem_Free(bits);
  return NULL;
}

/* Where a mask is true, row by row; there is room for one place more. Nobody foretells a mask, so nothing is asked. */
static void mask_places(const uint8_t *bits, size_t n, int64_t *flat) {
  for (size_t i = 0, k = 0; i < n; i++) flat[k] = (int64_t)i, k += bits[i] != 0;
}

/* The coordinates of these places along an axis. */
static weft_array *mask_axis(const int64_t *flat, size_t count, int64_t stride, int64_t dim, int64_t *where) {
  for (size_t k = 0; k < count; k++) where[k] = flat[k] / stride % dim;
  return weft_from(WEFT_I64, 1, (int64_t[]){ (int64_t)count }, where);
}

/* Whether the values of a mask can be had now; 0: those of a name cannot. */
static int mask_is_known(weft_array *mask, int rank) {
  for (int i = 0; i < rank; i++)
    if (weft_dim(mask, i) < 0) return 0;
  if (!evaluate(1, &mask)) return 1;
  if (!raised_no_value()) return -1;
  return PyErr_Clear(), 0;
}

/* Where a mask is true, once that is known: how many places that is too. */
static int push_open_mask(struct index *x, weft_array *mask, int rank) {
  weft_array *at[WEFT_RANK_MAX];
  weft_nonzero(mask, at);
  for (int i = 0; i < rank; i++) {
    int64_t dim = weft_dim(mask, i);
    if (push(x, (struct item){ .what = ARRAY, .array = at[i], .size = dim < 0 ? 0 : dim + 1 })) return -1;
  }
  return 0;
}

/* A single bool: where the new axis is taken. */
static int push_flag(struct index *x, weft_array *flag) {
  weft_array *at[1], *mask = weft_unsqueeze(flag, 0);
  int is_known = mask_is_known(mask, 1);
  uint8_t bit;
  if (is_known < 0 || (is_known && evaluate_into(mask, &bit, 1))) return -1;
  if (is_known) at[0] = weft_from(WEFT_I64, 1, (int64_t[]){ bit != 0 }, (int64_t[]){ 0 });
  else weft_nonzero(mask, at);
  return push(x, (struct item){ .what = FLAG, .array = at[0] });
}

/* A mask over r axes of x is r integer arrays. */
static int push_mask(struct index *x, weft_array *mask) {
  int rank = weft_rank(mask);
  int64_t dims[WEFT_RANK_MAX], stride = 1;
  size_t n, count = 0;
  if (!rank) return push_flag(x, mask);
  int is_known = mask_is_known(mask, rank);
  if (is_known <= 0) return is_known < 0 ? -1 : push_open_mask(x, mask, rank);
  uint8_t *bits = mask_read(mask, rank, dims, &n);
  if (!bits) return -1;
  for (size_t i = 0; i < n; i++) count += bits[i] != 0;
  int64_t *flat = PyMem_Malloc((count + 1) * (rank > 1 ? 2 : 1) * sizeof *flat), *where = flat + count + 1;
  int wrong = flat ? 0 : (PyErr_NoMemory(), -1);
  if (flat) mask_places(bits, n, flat);
  for (int i = 0; i < rank; i++) stride *= dims[i];
  for (int i = 0; i < rank && !wrong; i++) {
    stride = dims[i] ? stride / dims[i] : 1;
    weft_array *at = rank > 1 ? mask_axis(flat, count, stride ? stride : 1, dims[i] ? dims[i] : 1, where)
                              : weft_from(WEFT_I64, 1, (int64_t[]){ (int64_t)count }, flat);
    wrong = push(x, (struct item){ .what = ARRAY, .array = at, .size = dims[i] + 1 });
  }
  PyMem_Free(flat);
  PyMem_Free(bits);
  return wrong;
}

/* ---- From Python ---- */

static weft_array *whole_number(PyObject *o) {
  int64_t n;
  return convert_integer(o, &n) ? NULL : weft_integer(n);
}

static int push_array(struct index *x, PyObject *o) {
  weft_array *i = convert_array(o, NULL, 0);
  if (!i) return -1;
  weft_status s = weft_check(i);
  if (s) return raise_status(s), -1;
  weft_dtype d = weft_dtype_of(i);
  if (d == WEFT_BOOL) return push_mask(x, i);
  if (d > WEFT_I64 && PyList_Check(o) && !PyList_GET_SIZE(o)) i = weft_cast(i, d = WEFT_I32); /* x[[]] */
  if (d > WEFT_I64) return PyErr_Format(PyExc_IndexError, "indices are integers or bools, not %s", dtype_text(d)), -1;
  return push(x, (struct item){ .what = ARRAY, .array = i });
}

/* A slice of which a bound, or the step, is an array. */
static int push_cut(struct index *x, PySliceObject *s) {
  PyObject *const part[] = { s->start, s->stop, s->step };
  struct item item = { .what = CUT };
  for (int k = 0; k < 3; k++)
    if (part[k] != Py_None && !(item.cut[k] = array_check(part[k]) ? array_handle(part[k]) : whole_number(part[k]))) return -1;
  return push(x, item);
}

static int push_item(struct index *x, PyObject *o) {
  if (o == Py_None) return push(x, (struct item){ .what = NEW });
  if (o == Py_Ellipsis) {
    if (x->has_fill++) return PyErr_SetString(PyExc_IndexError, "an index has one '...' at most"), -1;
    return push(x, (struct item){ .what = FILL });
  }
  if (PySlice_Check(o)) {
    struct item i = { .what = SLICE };
    PySliceObject *s = (PySliceObject *)o;
    if (array_check(s->start) || array_check(s->stop) || array_check(s->step)) return push_cut(x, s);
    return PySlice_Unpack(o, &i.start, &i.stop, &i.step) ? -1 : push(x, i);
  }
  if (PyBool_Check(o)) return push_flag(x, weft_cast(weft_integer(o == Py_True), WEFT_BOOL));
  if (PyIndex_Check(o) && !array_check(o) && !PyObject_CheckBuffer(o)) { /* an ndarray has __index__ too */
    struct item i = { .what = INTEGER, .start = PyNumber_AsSsize_t(o, PyExc_IndexError) };
    return i.start == -1 && PyErr_Occurred() ? -1 : push(x, i);
  }
  if (array_check(o) || PyList_Check(o) || convert_is_possible(o)) return push_array(x, o);
  PyErr_Format(PyExc_TypeError, "%.200s is not an index", Py_TYPE(o)->tp_name);
  return -1;
}

/* Without '...', the axes not named come last. */
static int parse(struct index *x, weft_array *array, PyObject *o) {
  Py_ssize_t n = PyTuple_Check(o) ? PyTuple_GET_SIZE(o) : 1;
  *x = (struct index){ 0 };
  for (Py_ssize_t i = 0; i < n; i++)
    if (push_item(x, PyTuple_Check(o) ? PyTuple_GET_ITEM(o, i) : o)) return -1;
  if (!x->has_fill) x->item[x->n++] = (struct item){ .what = FILL };
  int rank = weft_rank(array);
  if (rank < 0) return raise_status(weft_check(array)), -1;
  return x->n_axes > rank ? too_many(x->n_axes, rank) : 0;
}

/* ---- Reading ---- */

static int in_range(weft_array *a, int axis, Py_ssize_t *i) {
  int64_t dim = weft_dim(a, axis);
  if (dim < 0) return 1; /* not known yet: found when it is computed */
  if (*i < -dim || *i >= dim) return raise_no_place(*i, axis, dim), 0;
  if (*i < 0) *i += (Py_ssize_t)dim;
  return 1;
}

static int mask_fits(weft_array *a, int axis, const struct item *i) {
  int64_t dim = weft_dim(a, axis);
  if (i->size <= 1 || dim < 0 || dim == i->size - 1) return 1; /* one without elements fits every axis */
  PyErr_Format(PyExc_IndexError, "a mask of %lld does not fit axis %d of %lld",
               (long long)i->size - 1, axis, (long long)weft_dim(a, axis));
  return 0;
}

static weft_array *at(weft_array *a, int axis, Py_ssize_t i) { return weft_at(a, axis, weft_integer(i)); }

/* Python's bounds are those of weft: PY_SSIZE_T_MAX is WEFT_END, PY_SSIZE_T_MIN is WEFT_BEGIN. */
static weft_array *slice(weft_array *a, int axis, const struct item *i) {
  if (i->start == 0 && i->stop == PY_SSIZE_T_MAX && i->step == 1) return a;
  return weft_slice(a, axis, i->start, i->stop, i->step);
}

/* Where the arrays of an index stand in the view that the other items make. */
struct gather { int n, axis[WEFT_RANK_MAX], is_together; weft_array *index[WEFT_RANK_MAX]; };

static void gather_add(struct gather *g, int axis, weft_array *index, int follows) {
  if (g->n) g->is_together &= follows;
  g->axis[g->n] = axis;
  g->index[g->n++] = index;
}

/* Everything but the arrays. An integer among arrays counts as one, as in NumPy. There '...' stands between those around it even if
 * no axis is left for it; in MLX it is what it stands for. */
static weft_array *view(weft_array *a, const struct index *x, const PyTypeObject *flavour, struct gather *g) {
  int axis = 0, last = -2, rank = weft_rank(a);
  *g = (struct gather){ .is_together = 1 };
  for (int i = 0; i < x->n; i++) {
    struct item item = x->item[i];
    if (item.what == INTEGER && !in_range(a, axis, &item.start)) return NULL;
    if (item.what == ARRAY && !mask_fits(a, axis, &item)) return NULL;
    if (item.what == ARRAY || (item.what == INTEGER && x->n_arrays)) {
      gather_add(g, axis++, item.what == ARRAY ? item.array : weft_integer(item.start), last == i - 1);
      last = i;
    } else if (item.what == INTEGER) {
      a = at(a, axis, item.start);
    } else if (item.what == NEW) {
      a = weft_unsqueeze(a, axis++);
    } else if (item.what == FLAG) {
      a = weft_unsqueeze(a, axis);
      gather_add(g, axis++, item.array, last == i - 1);
      last = i;
    } else if (item.what == SLICE) {
      a = slice(a, axis, &item), axis++;
    } else if (item.what == CUT) {
      a = weft_cut(a, axis++, item.cut[0], item.cut[1], item.cut[2]);
    } else {
      axis += rank - x->n_axes;
      if (rank == x->n_axes && flavour == &mlx_array_type && last == i - 1) last = i;
    }
  }
  return a;
}

/* The axes of the arrays come first, then one take, then the result's axes go where the arrays were if they stood
 * together. */
static weft_array *gather(weft_array *a, const struct gather *g) {
  int rank = weft_rank(a), order[2 * WEFT_RANK_MAX], n = 0, n_index = 0;
  for (int i = 0; i < g->n; i++) order[n++] = g->axis[i];
  for (int i = 0, k = 0; i < rank; i++)
    if (k < g->n && g->axis[k] == i) k++;
    else order[n++] = i;
  for (int i = 0; i < g->n; i++)
    if (weft_rank(g->index[i]) > n_index) n_index = weft_rank(g->index[i]);
  a = weft_take(weft_transpose(a, order), g->n, g->index);
  if (!g->is_together || !g->axis[0] || weft_rank(a) != rank - g->n + n_index) return a;
  n = 0;
  for (int i = 0; i < g->axis[0]; i++) order[n++] = n_index + i;
  for (int i = 0; i < n_index; i++) order[n++] = i;
  for (int i = n; i < rank - g->n + n_index; i++) order[i] = i;
  return weft_transpose(a, order);
}

/* The one mask that an index consists of, or NULL without an exception. */
static PyObject *only_mask(PyObject *index) {
  PyObject *o = PyTuple_Check(index) && PyTuple_GET_SIZE(index) == 1 ? PyTuple_GET_ITEM(index, 0) : index;
  return array_check(o) && weft_dtype_of(array_handle(o)) == WEFT_BOOL ? o : NULL;
}

static weft_array *get(weft_array *a, PyObject *o, const PyTypeObject *flavour) {
  PyObject *mask = only_mask(o);
  int is_known = mask && weft_rank(array_handle(mask)) > 0 ? mask_is_known(array_handle(mask), weft_rank(array_handle(mask))) : 1;
  if (is_known <= 0) return is_known < 0 ? NULL : weft_compress(a, array_handle(mask));
  struct index x;
  struct gather g;
  if (parse(&x, a, o)) return NULL;
  if (weft_rank(a) - x.n_axes + x.n > WEFT_RANK_MAX + 1)
    return PyErr_Format(PyExc_IndexError, "an index: the result would have more than %d axes", WEFT_RANK_MAX), NULL;
  weft_array *v = view(a, &x, flavour, &g);
  return v && g.n ? gather(v, &g) : v;
}

PyObject *index_get(PyObject *self, PyObject *index) {
  weft_scope *s = op_begin();
  weft_array *a = weft_own(array_handle(self)); /* an index may run Python */
  PyObject *result = op_end_as(flavour_of_array(self), s, get(a, index, flavour_of_array(self)));
  weft_disown(a);
  return result;
}

/* ---- Writing ---- */

/* Leading axes of length 1 that the target has not are dropped, as in NumPy. */
static weft_array *fit(weft_array *v, int rank) {
  while (weft_rank(v) > rank && weft_dim(v, 0) == 1) v = weft_squeeze(v, 0);
  return v;
}

static weft_array *combine(weft_array *x, weft_array *v, weft_how how) {
  switch (how) {
    case WEFT_ADD: return weft_add(x, v);
    case WEFT_MUL: return weft_mul(x, v);
    case WEFT_MIN: return weft_minimum(x, v);
    case WEFT_MAX: return weft_maximum(x, v);
    default: return v;
  }
}

/* where(mask, v, x), if the mask is over the first axes of x and v broadcasts against the others; else NULL. */
static weft_array *put_where(weft_array *x, weft_array *mask, weft_array *v, weft_how how) {
  int rank = weft_rank(mask), rest = weft_rank(x) - rank;
  if (rest < 0 || weft_rank(v) > rest) return NULL;
  for (int i = 0; i < rank; i++)
    if (weft_dim(mask, i) != weft_dim(x, i)) return NULL;
  for (int i = 0; i < rest; i++) mask = weft_unsqueeze(mask, rank);
  return weft_where(mask, combine(x, v, how), x);
}

/* How Python's x.at[index] changes elements: by weft's ways, and by two that are made of them once the value has the dtype of x, as
 * -v of an unsigned v is another number there than here. */
enum { HOW_SUBTRACT = WEFT_MAX + 1, HOW_DIVIDE };
static weft_array *turned(weft_array *v, int *how) {
  if (*how == HOW_SUBTRACT) return *how = WEFT_ADD, weft_neg(v);
  return *how == HOW_DIVIDE ? *how = WEFT_MUL, weft_reciprocal(v) : v;
}

static weft_array *put(weft_array *x, PyObject *index, PyObject *value, int given) {
  weft_array *v = flavour() != &mlx_array_type || mlx_fits(value, weft_dtype_of(x)) ? convert_operand(value) : NULL;
  if (!v) return NULL;
  v = turned(convert_cast(v, weft_dtype_of(x)), &given);
  weft_how how = (weft_how)given;
  PyObject *mask = only_mask(index);
  weft_array *masked = mask ? put_where(x, array_handle(mask), v, how) : NULL;
  if (masked) return masked;
  weft_array *part = get(x, index, flavour());
  return part ? weft_put(x, part, fit(v, weft_rank(part)), how) : NULL;
}

int index_set(PyObject *self, PyObject *index, PyObject *value) {
  if (!value) return PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted"), -1;
  if (body_refuses(((struct array *)self)->body)) return -1;
  weft_scope *s = op_begin();
  weft_array *old = weft_own(array_handle(self)), *a = put(old, index, value, WEFT_SET);
  weft_disown(old);
  int failed = !a || array_assign(self, a);
  weft_scope_discard(s);
  return failed ? -1 : 0;
}

static PyObject *put_function(PyObject *module, PyObject *args) {
  PyObject *o, *index, *value;
  int how;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!OOi", &array_type, &o, &index, &value, &how)) return NULL;
  PyTypeObject *before = flavour_set(flavour_of_array(o));
  weft_scope *s = op_begin();
  weft_array *x = weft_own(array_handle(o));
  PyObject *result = op_end(s, put(x, index, value, how));
  weft_disown(x);
  flavour_set(before);
  return result;
}

/* ---- Along an axis ---- */

weft_array *index_take(weft_array *x, int axis, weft_array *i) {
  struct gather g = { 1, { axis }, 1, { i } };
  return gather(x, &g);
}

/* (a, indices, axis): integers of any shape in the place of an axis; without one, of all elements in order */
weft_array *call_take(const struct name *row, PyObject *const arg[]) {
  weft_array *i = convert_array(arg[1], NULL, 0), *x = i ? convert_array(arg[0], NULL, 0) : NULL;
  int axis = 0;
  (void)row;
  if (x && arg[2] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  return !x || (arg[2] != Py_None && axis_parse(arg[2], weft_rank(x), &axis)) ? NULL : index_take(x, axis, i);
}

/* (a, indices, axis): a[.., indices[.., k, ..], ..]; the other axes broadcast */
weft_array *call_take_along(const struct name *row, PyObject *const arg[]) {
  weft_array *i = convert_array(arg[1], NULL, 0), *x = i ? convert_array(arg[0], NULL, 0) : NULL;
  int axis;
  (void)row;
  return !x || axis_parse(arg[2], weft_rank(x), &axis) ? NULL : weft_take_along(x, axis, i);
}

/* (a, indices, values, axis): a with these elements set; the other axes of the indices broadcast against those of a */
weft_array *call_put_along(const struct name *row, PyObject *const arg[]) {
  weft_array *i = convert_array(arg[1], NULL, 0), *v = i ? convert_operand(arg[2]) : NULL;
  weft_array *x = v ? convert_array(arg[0], NULL, 0) : NULL;
  int axis;
  (void)row;
  if (!x || axis_parse(arg[3], weft_rank(x), &axis)) return NULL;
  return weft_put(x, weft_take_along(x, axis, i), convert_cast(v, weft_dtype_of(x)), WEFT_SET);
}

PyMethodDef index_functions[] = {
  { "put", put_function, METH_VARARGS,
    "put(x, index, value, how): a new x, with x[index] set (0), added to (1), multiplied (2), "
    "the minimum (3) or maximum (4) taken, subtracted from (5) or divided (6)" },
  { 0 },
};
