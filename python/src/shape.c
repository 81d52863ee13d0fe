/* shape.c -- views, joins, copies of parts, casts: what changes the shape or the dtype and not the values. */
#include "names.h"
#include <string.h>

/* reshape(2, 3) and reshape((2, 3)) are the same. */
static PyObject *one_or_all(PyObject *rest) {
  PyObject *first = PyTuple_GET_SIZE(rest) == 1 ? PyTuple_GET_ITEM(rest, 0) : rest;
  return convert_is_index(first) ? rest : first;
}

static weft_array *first(PyObject *const arg[]) { return convert_array(arg[0], NULL, 0); }

/* (a, *shape) */
weft_array *call_reshape(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  (void)row;
  weft_array *like;
  int is_open = x ? convert_sized(one_or_all(arg[1]), WEFT_U8, x, &like) : -1;
  if (is_open) return is_open < 0 ? NULL : weft_reshape_like(x, like);
  if (convert_shape(one_or_all(arg[1]), &rank, dims)) return NULL;
  for (int i = 0; i < rank; i++)
    if (dims[i] < -1) return PyErr_Format(PyExc_ValueError, "reshape: the size %lld is negative", (long long)dims[i]), NULL;
  return weft_reshape(x, rank, dims);
}

/* (a, *shape) */
weft_array *call_broadcast_to(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int rank;
  int64_t dims[WEFT_RANK_MAX];
  (void)row;
  weft_array *like;
  int is_open = x ? convert_sized(one_or_all(arg[1]), WEFT_U8, NULL, &like) : -1;
  if (is_open) return is_open < 0 ? NULL : weft_broadcast_like(x, like);
  if (convert_shape(one_or_all(arg[1]), &rank, dims)) return NULL;
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0) return PyErr_Format(PyExc_ValueError, "broadcast_to: the size %lld is negative", (long long)dims[i]), NULL;
  return weft_broadcast(x, rank, dims);
}

static int permutation(PyObject *o, int rank, int axes[]) {
  int sorted[WEFT_RANK_MAX], n;
  if (axes_parse(o, rank, &n, sorted)) return -1;
  if (n != rank) return PyErr_Format(PyExc_ValueError, "transpose: %d axes for an array of %d", n, rank), -1;
  if (convert_is_index(o)) return axis_parse(o, rank, axes);
  for (int i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    int wrong = !item || axis_parse(item, rank, &axes[i]);
    Py_XDECREF(item);
    if (wrong) return -1;
  }
  return 0;
}

/* (a, *axes) */
weft_array *call_transpose(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  (void)row;
  if (!x) return NULL;
  PyObject *order = one_or_all(arg[1]);
  int axes[WEFT_RANK_MAX] = { 0 }, reversed = order == Py_None || (order == arg[1] && !PyTuple_GET_SIZE(order));
  if (!reversed && permutation(order, weft_rank(x), axes)) return NULL;
  return weft_transpose(x, reversed ? NULL : axes);
}

/* (a, source, destination) */
weft_array *call_moveaxis(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int rank = x ? weft_rank(x) : 0, n, n_to, from[WEFT_RANK_MAX], to[WEFT_RANK_MAX];
  int order[WEFT_RANK_MAX], is_moved[WEFT_RANK_MAX] = { 0 };
  if (!x || axes_in_order(arg[1], rank, &n, from) || axes_in_order(arg[2], rank, &n_to, to)) return NULL;
  if (n != n_to) return PyErr_Format(PyExc_ValueError, "%s: %d axes go to %d places", row->name, n, n_to), NULL;
  for (int i = 0; i < rank; i++) order[i] = -1;
  for (int i = 0; i < n; i++) order[to[i]] = from[i], is_moved[from[i]] = 1;
  for (int i = 0, next = 0; i < rank; i++) {
    if (order[i] >= 0) continue;
    while (is_moved[next]) next++;
    order[i] = next++;
  }
  return weft_transpose(x, order);
}

/* (a, axis1, axis2) */
weft_array *call_swapaxes(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int a, b, axes[WEFT_RANK_MAX], rank = x ? weft_rank(x) : 0;
  (void)row;
  if (!x || axis_parse(arg[1], rank, &a) || axis_parse(arg[2], rank, &b)) return NULL;
  for (int i = 0; i < rank; i++) axes[i] = i == a ? b : i == b ? a : i;
  return weft_transpose(x, axes);
}

/* (a, axis); without an axis, all those of length 1 */
weft_array *call_squeeze(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n = 0, axes[WEFT_RANK_MAX], rank;
  int64_t dims[WEFT_RANK_MAX];
  (void)row;
  if (!x || (arg[1] != Py_None && axes_parse(arg[1], weft_rank(x), &n, axes))) return NULL;
  if (arg[1] == Py_None) {
    if (convert_dims_of(x, &rank, dims))
      return raised_no_value() ? raise_unsized("squeeze: which axes are 1 long is not known yet: name them") : NULL;
    for (int i = 0; i < rank; i++)
      if (dims[i] == 1) axes[n++] = i;
  }
  while (n-- > 0) x = weft_squeeze(x, axes[n]);
  return x;
}

/* (a, axis) */
weft_array *call_expand_dims(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  Py_ssize_t count = !x ? -1 : convert_is_index(arg[1]) ? 1 : PySequence_Size(arg[1]);
  int n, axes[WEFT_RANK_MAX];
  (void)row;
  if (count < 0) return NULL;
  if (count + weft_rank(x) > WEFT_RANK_MAX)
    return PyErr_Format(PyExc_ValueError, "expand_dims: %zd axes are too many", count), NULL;
  if (axes_parse(arg[1], weft_rank(x) + (int)count, &n, axes)) return NULL;
  for (int i = 0; i < n; i++) x = weft_unsqueeze(x, axes[i]);
  return x;
}

/* (a, start_axis, end_axis) */
weft_array *call_flatten(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int64_t from, to;
  (void)row;
  if (!x || convert_integer(arg[1], &from) || convert_integer(arg[2], &to)) return NULL;
  int rank = weft_rank(x);
  if (!rank) return weft_reshape(x, 1, (int64_t[]){ 1 });
  if (from < 0) from += rank;
  if (to < 0) to += rank;
  if (flavour() == &mlx_array_type) { /* there an axis beyond the first or the last is that one */
    if (from < 0) from = 0;
    if (to >= rank) to = rank - 1;
  }
  if (from < 0 || to >= rank || from > to) {
    PyErr_Format(PyExc_ValueError, "flatten: there are no axes %lld to %lld among %d", (long long)from, (long long)to, rank);
    return NULL;
  }
  return weft_flatten(x, (int)from, (int)to);
}

/* (a) */
weft_array *call_ravel(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  (void)row;
  return x ? weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }) : NULL;
}

/* (a, axis); without an axis, all */
weft_array *call_flip(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n = x ? weft_rank(x) : 0, axes[WEFT_RANK_MAX];
  (void)row;
  for (int i = 0; i < n; i++) axes[i] = i;
  if (!x || (arg[1] != Py_None && axes_parse(arg[1], n, &n, axes))) return NULL;
  for (int i = 0; i < n; i++) x = weft_flip(x, axes[i]);
  return x;
}

/* (a, dtype) */
weft_array *call_astype(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *x = dtype_parse(arg[1], &d) ? NULL : first(arg);
  return x ? weft_cast(x, d) : NULL;
}

/* (a, dtype) */
weft_array *call_view_as(const struct name *row, PyObject *const arg[]) {
  weft_dtype d;
  (void)row;
  weft_array *x = dtype_parse(arg[1], &d) ? NULL : first(arg);
  return x ? weft_view(x, d) : NULL;
}

static int f8_of(const char *fn, PyObject *o, weft_dtype *kind) {
  *kind = PyUnicode_Check(o) && !PyUnicode_CompareWithASCIIString(o, "e5m2") ? WEFT_E5M2 : WEFT_E4M3;
  if (*kind == WEFT_E5M2 || (PyUnicode_Check(o) && !PyUnicode_CompareWithASCIIString(o, "e4m3"))) return 0;
  return PyErr_Format(PyExc_ValueError, "%s: the format is 'e4m3' or 'e5m2', not %R", fn, o), -1;
}

/* (a, format) */
weft_array *call_to_f8(const struct name *row, PyObject *const arg[]) {
  weft_dtype kind;
  weft_array *x = f8_of(row->name, arg[1], &kind) ? NULL : first(arg);
  return x ? weft_to_f8(x, kind) : NULL;
}

/* (a, dtype, format) */
weft_array *call_from_f8(const struct name *row, PyObject *const arg[]) {
  weft_dtype kind;
  weft_dtype d;
  weft_array *x = f8_of(row->name, arg[2], &kind) || dtype_parse(arg[1], &d) ? NULL : first(arg);
  return x ? weft_from_f8(x, kind, d) : NULL;
}

/* (arrays, axis): along an axis that is there, or along a new one, as the row's function does; None: of all elements in order */
weft_array *call_join(const struct name *row, PyObject *const arg[]) {
  weft_array *(*join)(int, int, weft_array *const[]) = (weft_array * (*)(int, int, weft_array *const[])) row->function;
  struct list l;
  int64_t axis = 0;
  int is_stack = join == weft_stack, is_flat = arg[1] == Py_None && !is_stack; /* stacked along no axis is to MLX along the first */
  int is_first = arg[1] == Py_None && is_stack && flavour() == &mlx_array_type;
  if ((!is_flat && !is_first && convert_integer(arg[1], &axis)) || list_take(&l, arg[0])) return NULL;
  weft_array **part = PyMem_Malloc((size_t)(l.n ? l.n : 1) * sizeof *part), *joined = NULL;
  if (!part) PyErr_NoMemory();
  else {
    for (int i = 0; i < l.n; i++) part[i] = is_flat ? weft_reshape(l.array[i], 1, (int64_t[]){ WEFT_ANY }) : l.array[i];
    joined = join(axis < -1000 || axis > 1000 ? 1000 : (int)axis, l.n, part);
  }
  PyMem_Free(part);
  list_drop(&l);
  return joined;
}

/* (a, shape, strides, offset); row by row unless strides say otherwise */
weft_array *call_as_strided(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int rank, n;
  int64_t dims[WEFT_RANK_MAX], steps[WEFT_RANK_MAX], offset, stride = 1;
  (void)row;
  if (!x || convert_integer(arg[3], &offset)) return NULL;
  if (arg[1] == Py_None ? convert_dims_of(x, &rank, dims) : convert_shape(arg[1], &rank, dims)) return NULL;
  if (arg[2] == Py_None)
    for (int i = n = rank; i-- > 0; stride *= dims[i]) steps[i] = stride;
  else if (convert_shape(arg[2], &n, steps)) return NULL;
  if (n != rank) return PyErr_Format(PyExc_ValueError, "as_strided: %d strides for %d axes", n, rank), NULL;
  return weft_as_strided(x, rank, dims, steps, offset);
}

/* ---- Sizes and windows ---- */

/* (a, axis): of one axis, or the product of all */
weft_array *call_size(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg), *n = weft_cast(weft_integer(1), WEFT_I64);
  int axis;
  (void)row;
  if (!x || (arg[1] != Py_None && axis_parse(arg[1], weft_rank(x), &axis))) return NULL;
  if (arg[1] != Py_None) return weft_size(x, axis);
  for (int k = 0; k < weft_rank(x); k++) n = weft_mul(n, weft_size(x, k));
  return n;
}

/* (shape, dtype) */
weft_array *call_sized(const struct name *row, PyObject *const arg[]) {
  struct list sizes;
  weft_dtype d;
  (void)row;
  PyObject *one = convert_is_index(arg[0]) || array_check(arg[0]) ? PyTuple_Pack(1, arg[0]) : Py_NewRef(arg[0]);
  int failed = !one || dtype_parse(arg[1], &d) || list_take(&sizes, one);
  Py_XDECREF(one);
  if (failed) return NULL;
  weft_array *zeros = weft_sized(d, sizes.n, sizes.array);
  list_drop(&sizes);
  return zeros;
}

/* (a, start, n, axis) */
weft_array *call_window(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg), *start = x ? convert_operand(arg[1]) : NULL;
  int64_t n;
  int axis;
  (void)row;
  if (!start || convert_integer(arg[2], &n) || axis_parse(arg[3], weft_rank(x), &axis)) return NULL;
  return weft_window(x, axis, start, n);
}

/* (a, n, axis, step, dilation) */
weft_array *call_windows(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int64_t n, step, dilation;
  int axis;
  (void)row;
  if (!x || convert_integer(arg[1], &n) || axis_parse(arg[2], weft_rank(x), &axis)) return NULL;
  return convert_integer(arg[3], &step) || convert_integer(arg[4], &dilation) ? NULL : weft_windows(x, axis, n, step, dilation);
}

/* ---- Padding ---- */

/* Pads one axis. value: what stands outside, or where a ramp ends. */
static weft_array *pad(weft_array *x, int axis, int64_t before, int64_t after, const char *mode, weft_array *value) {
  static const char *const modes[] = { "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean" };
  if (!before && !after) return x;
  if (!strcmp(mode, "constant")) return weft_pad(x, axis, before, after, value);
  if (before < 0 || after < 0) return PyErr_SetString(PyExc_ValueError, "pad: a width is negative"), NULL;
  for (int i = 0; i < 8; i++)
    if (!strcmp(mode, modes[i])) return weft_pad_with(x, axis, before, after, (weft_padding)i, value);
  return PyErr_Format(PyExc_ValueError, "pad: mode=\"%s\" is none of constant, edge, reflect, symmetric, wrap, linear_ramp, "
                                        "maximum, minimum, mean", mode), NULL;
}

/* Widths before and after each axis: one number, a pair for all axes, or a pair for each. */
static int widths(PyObject *o, int rank, int64_t width[][2]) {
  int n;
  int64_t pair[WEFT_RANK_MAX];
  PyObject *each = convert_is_index(o) ? PyTuple_Pack(1, o)
                                       : PySequence_Fast(o, "pad: widths are a number, a pair, or a pair for each axis");
  if (!each) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(each);
  int is_flat = count && convert_is_index(PySequence_Fast_GET_ITEM(each, 0)), failed = 0;
  if (!is_flat && count != 1 && count != rank)
    failed = (PyErr_Format(PyExc_ValueError, "pad: %zd pairs for %d axes", count, rank), 1);
  for (int k = 0; k < rank && !failed; k++) {
    PyObject *one = is_flat ? each : PySequence_Fast_GET_ITEM(each, count == 1 ? 0 : k);
    failed = convert_shape(one, &n, pair);
    if (!failed && (n < 1 || n > 2)) failed = (PyErr_Format(PyExc_ValueError, "pad: a pair of widths, not %d", n), 1);
    if (!failed) width[k][0] = pair[0], width[k][1] = pair[n - 1];
  }
  Py_DECREF(each);
  return failed ? -1 : 0;
}

static weft_array *padded(PyObject *const arg[], PyObject *outside) {
  int64_t width[WEFT_RANK_MAX][2];
  const char *mode = PyUnicode_Check(arg[2]) ? PyUnicode_AsUTF8(arg[2]) : NULL;
  if (!mode) return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_TypeError, "pad: the mode is a text"), NULL);
  weft_array *value = convert_operand(outside), *x = value ? first(arg) : NULL;
  if (!x || widths(arg[1], weft_rank(x), width)) return NULL;
  if (flavour() == &mlx_array_type && !mlx_fits(outside, weft_dtype_of(x))) return NULL;
  value = convert_cast(value, weft_dtype_of(x));
  for (int k = 0; x && k < weft_rank(x); k++) x = pad(x, k, width[k][0], width[k][1], mode, value);
  return x;
}

/* (a, pad_width, mode, constant_values) */
weft_array *call_pad(const struct name *row, PyObject *const arg[]) { return (void)row, padded(arg, arg[3]); }

/* (a, pad_width, mode, constant_values, end_values) */
weft_array *call_pad_ends(const struct name *row, PyObject *const arg[]) {
  int is_ramp = PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], "linear_ramp");
  return (void)row, padded(arg, arg[is_ramp ? 4 : 3]);
}

/* (a, scale, axis, mode, align_corners): one axis after the other */
weft_array *call_resize(const struct name *row, PyObject *const arg[]) {
  static const char *const modes[] = { "nearest", "linear", "cubic" };
  weft_array *x = first(arg);
  int how = -1, n, axes[WEFT_RANK_MAX], aligns = PyObject_IsTrue(arg[4]);
  double scale = x ? PyFloat_AsDouble(arg[1]) : 0;
  (void)row;
  if (!x || aligns < 0 || PyErr_Occurred() || axes_parse(arg[2], weft_rank(x), &n, axes)) return NULL;
  for (int i = 0; i < 3; i++)
    if (PyUnicode_Check(arg[3]) && !PyUnicode_CompareWithASCIIString(arg[3], modes[i])) how = i;
  if (how < 0) return PyErr_Format(PyExc_ValueError, "resize: the mode is 'nearest', 'linear' or 'cubic', not %R", arg[3]), NULL;
  for (int i = 0; i < n; i++) x = weft_resize(x, axes[i], scale, (weft_resizing)how, aligns);
  return x;
}

/* ---- Repetitions ---- */

/* Place i so many times as a list says. */
static weft_array *repeated(PyObject *list, int64_t n) {
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list), total = 0, at = 0;
  int64_t times, *place;
  if (count != n) return PyErr_Format(PyExc_ValueError, "repeat: %zd numbers for an axis of %lld", count, (long long)n), NULL;
  for (Py_ssize_t i = 0; i < count; i++, total += (Py_ssize_t)times)
    if (convert_integer(PySequence_Fast_GET_ITEM(list, i), &times)) return NULL;
    else if (times < 0) return PyErr_Format(PyExc_ValueError, "repeat: number %zd is %lld", i, (long long)times), NULL;
    else if (times > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof *place - total)
      return PyErr_Format(PyExc_MemoryError, "repeat: number %zd is %lld", i, (long long)times), NULL;
  if (!(place = PyMem_Malloc((size_t)(total ? total : 1) * sizeof *place))) return (weft_array *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count && !convert_integer(PySequence_Fast_GET_ITEM(list, i), &times); i++)
    for (int64_t k = 0; k < times && at < total; k++) place[at++] = i;
  weft_array *places = weft_from(WEFT_I64, 1, (int64_t[]){ at }, place);
  PyMem_Free(place);
  return places;
}

/* The same for numbers that are not known yet, so that neither is the size of the result: place p of it shows the first place of
 * the axis whose repetitions, with those before it, are more than p. */
static weft_array *repeated_later(weft_array *x, int axis, weft_array *times) {
  weft_array *each = weft_sized(WEFT_I64, 1, (weft_array *[]){ weft_size(x, axis) });
  if (weft_rank(times) > 1) return PyErr_SetString(PyExc_ValueError, "repeat: one number for each place of the axis"), NULL;
  times = weft_add(weft_cast(times, WEFT_I64), each); /* as many as there are places, or one for all */
  times = weft_assert(times, weft_all(weft_ge(times, weft_integer(0)), WEFT_ALL), "repeat: a number is below 0");
  weft_array *total = weft_sum(times, WEFT_ALL), *place = weft_iota(weft_sized(WEFT_I64, 1, &total), 0);
  return weft_searchsorted(weft_cumsum(times, 0), place, 1);
}

static weft_array *repeat_now(weft_array *x, int axis, PyObject *numbers) {
  weft_array *out = NULL, *at;
  int64_t times;
  if (convert_is_index(numbers)) return convert_integer(numbers, &times) ? NULL : weft_repeat(x, axis, times);
  PyObject *list = PySequence_Fast(numbers, "repeat: a number, or one for each place of the axis");
  if (!list) return NULL;
  if (PySequence_Fast_GET_SIZE(list) == 1) {
    if (!convert_integer(PySequence_Fast_GET_ITEM(list, 0), &times)) out = weft_repeat(x, axis, times);
  } else if (weft_dim(x, axis) < 0) raise_no_size(x, axis);
  else if ((at = repeated(list, weft_dim(x, axis)))) out = index_take(x, axis, at);
  Py_DECREF(list);
  return out;
}

/* (a, repeats, axis): a number, or one for each place of the axis */
weft_array *call_repeat(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg), *at;
  int axis = 0;
  (void)row;
  if (x && arg[2] == Py_None) x = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
  if (!x || (arg[2] != Py_None && axis_parse(arg[2], weft_rank(x), &axis))) return NULL;
  weft_array *out = repeat_now(x, axis, arg[1]);
  if (out || !array_check(arg[1]) || !raised_no_value()) return out;
  PyErr_Clear();
  return (at = repeated_later(x, axis, array_handle(arg[1]))) ? index_take(x, axis, at) : NULL;
}

/* (a, reps) */
weft_array *call_tile(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n;
  int64_t times[WEFT_RANK_MAX];
  (void)row;
  return !x || convert_shape(arg[1], &n, times) ? NULL : weft_tile(x, n, times);
}

/* (a, shift, axis): numbers, or several of each; without an axis, of all elements in order */
weft_array *call_roll(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int n_shifts, n_axes;
  int64_t shift[WEFT_RANK_MAX], axis[WEFT_RANK_MAX];
  (void)row;
  if (!x || convert_shape(arg[1], &n_shifts, shift)) return NULL;
  if (arg[2] == Py_None) {
    weft_array *flat = weft_reshape(x, 1, (int64_t[]){ WEFT_ANY });
    for (int i = 0; i < n_shifts; i++) flat = weft_roll(flat, 0, shift[i]);
    return weft_reshape_like(flat, x);
  }
  if (convert_shape(arg[2], &n_axes, axis)) return NULL;
  if (n_shifts != n_axes && n_shifts != 1 && n_axes != 1)
    return PyErr_Format(PyExc_ValueError, "roll: %d shifts for %d axes", n_shifts, n_axes), NULL;
  int n = !n_shifts || !n_axes ? 0 : n_shifts > n_axes ? n_shifts : n_axes;
  for (int i = 0; i < n; i++) {
    int64_t k = axis[n_axes == 1 ? 0 : i];
    if (k < -weft_rank(x) || k >= weft_rank(x)) return (weft_array *)raise_no_axis((Py_ssize_t)k, weft_rank(x));
    x = weft_roll(x, (int)k, shift[n_shifts == 1 ? 0 : i]);
  }
  return x;
}

/* (a, k, axes) */
weft_array *call_rot90(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int64_t quarters, axis[WEFT_RANK_MAX];
  int n, axes[2];
  (void)row;
  if (!x || convert_integer(arg[1], &quarters) || convert_shape(arg[2], &n, axis)) return NULL;
  if (n != 2) return PyErr_Format(PyExc_ValueError, "rot90: two axes are expected, not %d", n), NULL;
  for (int i = 0; i < 2; i++) axes[i] = axis[i] < -1000 || axis[i] > 1000 ? 1000 : (int)axis[i];
  return weft_rot90(x, quarters, axes[0], axes[1]);
}

/* All of x along axis k of n. */
static weft_array *alone(weft_array *x, int k, int n) {
  int64_t dims[WEFT_RANK_MAX];
  for (int i = 0; i < n; i++) dims[i] = i == k ? WEFT_ANY : 1;
  return weft_reshape(x, n, dims);
}

/* (*xi, sparse, indexing): a list */
PyObject *make_meshgrid(const struct name *row, PyObject *const arg[]) {
  struct list l;
  weft_array *y[WEFT_RANK_MAX];
  PyObject *list = NULL;
  int is_sparse = PyObject_IsTrue(arg[1]), is_xy = PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], "xy");
  (void)row;
  if (is_sparse < 0) return NULL;
  if (!is_xy && !(PyUnicode_Check(arg[2]) && !PyUnicode_CompareWithASCIIString(arg[2], "ij")))
    return PyErr_Format(PyExc_ValueError, "meshgrid: the indexing is 'xy' or 'ij', not %R", arg[2]);
  weft_scope *s = op_begin();
  if (!list_take(&l, arg[0])) {
    if (l.n > WEFT_RANK_MAX) PyErr_Format(PyExc_ValueError, "meshgrid: %d arrays are too many", l.n);
    else {
      if (!is_sparse) weft_meshgrid(l.n, l.array, is_xy, y);
      for (int k = 0; is_sparse && k < l.n; k++) y[k] = alone(l.array[k], is_xy && l.n > 1 && k < 2 ? 1 - k : k, l.n);
      list = array_list(flavour(), l.n, y);
    }
    list_drop(&l);
  }
  weft_scope_discard(s);
  return list;
}

/* ---- Diagonals and parts ---- */

/* (a, k): as the row's function does */
weft_array *call_triangle(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int64_t k;
  return !x || convert_integer(arg[1], &k) ? NULL : ((weft_array * (*)(weft_array *, int64_t)) row->function)(x, k);
}
weft_array *call_diag(const struct name *row, PyObject *const arg[]) { return call_triangle(row, arg); }

/* (a, offset, axis1, axis2) */
weft_array *call_diagonal(const struct name *row, PyObject *const arg[]) {
  weft_array *x = first(arg);
  int64_t k;
  int a, b;
  (void)row;
  if (!x || convert_integer(arg[1], &k)) return NULL;
  if (axis_parse(arg[2], weft_rank(x), &a) || axis_parse(arg[3], weft_rank(x), &b)) return NULL;
  return weft_diagonal(x, k, a, b);
}

/* (a, offset, axis1, axis2) */
weft_array *call_trace(const struct name *row, PyObject *const arg[]) {
  weft_array *x = call_diagonal(row, arg);
  return x ? weft_squeeze(weft_sum(x, -1), -1) : NULL;
}

static PyObject *equal_parts(weft_array *x, int axis, int64_t n) {
  if (n < 1 || n > 1 << 20) return PyErr_Format(PyExc_ValueError, "split: %lld parts", (long long)n);
  weft_array **part = PyMem_Malloc((size_t)n * sizeof *part);
  if (!part) return PyErr_NoMemory();
  weft_split(x, axis, (int)n, part);
  PyObject *list = array_list(flavour(), (int)n, part);
  PyMem_Free(part);
  return list;
}

static PyObject *parts_at(weft_array *x, int axis, PyObject *cuts) {
  PyObject *at = PySequence_Fast(cuts, "split: a number of parts, or the indices before which to cut");
  PyObject *list = at ? PyList_New(0) : NULL;
  int64_t begin = 0, end;
  for (Py_ssize_t i = 0, n = at ? PySequence_Fast_GET_SIZE(at) : 0; list && i <= n; i++, begin = end) {
    PyObject *part = NULL;
    if (i == n) end = WEFT_END;
    if (i == n || !convert_integer(PySequence_Fast_GET_ITEM(at, i), &end)) part = array_wrap(weft_slice(x, axis, begin, end, 1));
    if (!part || PyList_Append(list, part)) Py_CLEAR(list);
    Py_XDECREF(part);
  }
  Py_XDECREF(at);
  return list;
}

/* (a, indices_or_sections, axis) */
PyObject *make_split(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x = first(arg);
  int axis;
  int64_t n;
  PyObject *list = NULL;
  (void)row;
  if (x && !axis_parse(arg[2], weft_rank(x), &axis)) {
    if (!convert_is_index(arg[1])) list = parts_at(x, axis, arg[1]);
    else if (!convert_integer(arg[1], &n)) list = equal_parts(x, axis, n);
  }
  weft_scope_discard(s);
  return list;
}

/* ---- Where a condition holds ---- */

/* (a): a tuple of indices */
PyObject *make_nonzero(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x = first(arg), *index[WEFT_RANK_MAX];
  int rank = x ? weft_rank(x) : 0;
  PyObject *list = NULL;
  (void)row;
  if (x && !rank) PyErr_SetString(PyExc_ValueError, "nonzero: a 0-d array has no indices");
  else if (x && rank < 0) raise_status(weft_check(x));
  else if (x) {
    weft_nonzero(x, index);
    list = array_list(flavour(), rank, index);
  }
  weft_scope_discard(s);
  PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

/* (a, return_index, return_inverse, return_counts) */
PyObject *make_unique(const struct name *row, PyObject *const arg[]) {
  weft_scope *s = op_begin();
  weft_array *x = first(arg), *got[4], *out[4];
  int n = 1, is_asked[3] = { 0 }, failed = !x;
  (void)row;
  for (int k = 0; k < 3 && !failed; k++) failed = (is_asked[k] = PyObject_IsTrue(arg[k + 1])) < 0;
  PyObject *list = NULL;
  if (!failed) {
    out[0] = weft_unique(x, is_asked[0] ? &got[0] : NULL, is_asked[1] ? &got[1] : NULL, is_asked[2] ? &got[2] : NULL);
    for (int k = 0; k < 3; k++) if (is_asked[k]) out[n++] = k == 1 ? weft_reshape_like(got[k], x) : got[k];
    list = array_list(flavour(), n, out);
  }
  weft_scope_discard(s);
  if (!list) return NULL;
  PyObject *result = n > 1 ? PyList_AsTuple(list) : Py_NewRef(PyList_GET_ITEM(list, 0));
  Py_DECREF(list);
  return result;
}

/* ---- Copies ---- */

/* A copy is another name of the same value: arrays do not change, names do. */
static PyObject *copy(PyObject *self, PyObject *unused) {
  (void)unused;
  return array_wrap_as(flavour_of_array(self), array_handle(self));
}

PyMethodDef shape_methods[] = {
  { "copy", copy, METH_NOARGS, "copy($self, /)\n--\n\ncopy(): another name of the same value" },
  { "__copy__", copy, METH_NOARGS, "copy()" },
  { "__deepcopy__", copy, METH_O, "copy()" },
  { 0 },
};
