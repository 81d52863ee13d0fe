/* origin.c -- the lines of the user's program that nodes come from. A tag is an index into a table of (file, line);
 * frames of this package are passed over, so that the tag is the line that called it. The table only grows, by one
 * entry for each line that ever built a node. Guarded by the GIL, or by `table`. */
#include "core.h"
#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

GUARD(table);
struct line { PyObject *file; int number; };
static struct line *lines;             /* lines[0] is unused: the tag 0 means none */
static size_t n_lines, capacity;       /* of lines */
static uint32_t *slots;                /* open addressing, twice the capacity; 0: empty */
static PyObject *own_folder;           /* frames of files in there are passed over; NULL: none are */

#if PY_VERSION_HEX >= 0x03090000
static PyFrameObject *outer(PyFrameObject *f) { return PyFrame_GetBack(f); }
static PyCodeObject *code(PyFrameObject *f) { return PyFrame_GetCode(f); }
#else
static PyFrameObject *outer(PyFrameObject *f) { Py_XINCREF(f->f_back); return f->f_back; }
static PyCodeObject *code(PyFrameObject *f) { Py_INCREF(f->f_code); return f->f_code; }
#endif

static size_t hash(PyObject *file, int number) {
  size_t h = ((size_t)file >> 4) ^ ((size_t)number * 0x9E3779B97F4A7C15u);
  return h ^ h >> 29;
}

static void insert(uint32_t tag) {
  size_t mask = capacity * 2 - 1, i = hash(lines[tag].file, lines[tag].number) & mask;
  while (slots[i]) i = (i + 1) & mask;
  slots[i] = tag;
}

static int grow(void) {
  size_t larger = capacity ? capacity * 2 : 256;
  struct line *l = PyMem_Realloc(lines, larger * sizeof *l);
  if (!l) return 0;
  lines = l;
  uint32_t *s = PyMem_Calloc(larger * 2, sizeof *s);
  if (!s) return 0;
  PyMem_Free(slots);
  slots = s;
  capacity = larger;
  for (size_t tag = 1; tag < n_lines; tag++) insert((uint32_t)tag);
  return 1;
}

/* The tag of a line; 0 without memory. */
static uint32_t tag_of(PyObject *file, int number) {
  size_t mask = capacity * 2 - 1, i = hash(file, number) & mask;
  if (capacity)
    for (; slots[i]; i = (i + 1) & mask)
      if (lines[slots[i]].file == file && lines[slots[i]].number == number) return slots[i];
  if (!n_lines) n_lines = 1;
  if ((n_lines >= capacity && !grow()) || n_lines >= UINT32_MAX) return 0;
  lines[n_lines] = (struct line){ Py_NewRef(file), number };
  insert((uint32_t)n_lines);
  return (uint32_t)n_lines++;
}

static int is_own(PyObject *file) {
  return own_folder && PyUnicode_Check(file) && PyUnicode_Tailmatch(file, own_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
}

#if PY_VERSION_HEX >= 0x030B0000
static int place(PyFrameObject *f) { return PyFrame_GetLasti(f); }
#else
static int place(PyFrameObject *f) { return (void)f, -1; }
#endif

/* Who is called again and again is not asked for his line again and again. */
static struct { PyCodeObject *code; int at; uint32_t tag; } last;

/* The tag of a line of the user's; 0: a frame of ours. */
static uint32_t tag_at(PyFrameObject *frame, PyCodeObject *c) {
  int at = place(frame);
  guard(table);
  uint32_t known = c == last.code && at == last.at && at >= 0 ? last.tag : 0;
  unguard(table);
  if (known) return known;
  if (is_own(c->co_filename)) return 0;
  int number = PyFrame_GetLineNumber(frame);
  guard(table);
  uint32_t tag = tag_of(c->co_filename, number);
  PyCodeObject *old = last.code;
  last.code = (PyCodeObject *)Py_NewRef((PyObject *)c), last.at = at, last.tag = tag;
  unguard(table);
  Py_XDECREF(old);
  return tag;
}

/* What this thread builds comes from here, whoever calls; 0: from the lines that do. */
static _Thread_local uint32_t given;

void origin_mark(void) {
  if (given) {
    weft_origin(given);
    return;
  }
  PyFrameObject *frame = PyEval_GetFrame();
  uint32_t tag = 0;
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject *c = code(frame);
    tag = tag_at(frame, c);
    Py_DECREF(c);
    PyFrameObject *next = tag ? NULL : outer(frame);
    Py_DECREF(frame);
    frame = next;
  }
  weft_origin(tag);
}

/* Whether users call it: a function of a module of ours that is not private, nor made inside another one. */
static int is_public(PyCodeObject *c) {
  Py_UCS4 first = PyUnicode_GET_LENGTH(c->co_name) ? PyUnicode_READ_CHAR(c->co_name, 0) : '_';
  return first != '_' && first != '<' && !(c->co_flags & CO_NESTED);
}

/* As it is typed: functions of random with their module, beside whose names there are others. */
static PyObject *typed(PyCodeObject *c) {
  Py_ssize_t n = PyUnicode_GET_LENGTH(c->co_filename);
  PyObject *file = PyUnicode_FromString("random.py");
  int is_random = file && PyUnicode_Tailmatch(c->co_filename, file, n > 9 ? n - 9 : 0, n, 1) == 1;
  Py_XDECREF(file);
  return PyUnicode_FromFormat(is_random ? "random.%U" : "%U", c->co_name);
}

/* Whether it is a file of weft.pytensor, whose functions trace a graph: the user calls none of them. */
static int is_tracing(PyObject *file) {
  PyObject *folder = PyUnicode_FromString("pytensor/");
  int is = folder && PyUnicode_Tailmatch(file, folder, PyUnicode_GET_LENGTH(own_folder), PY_SSIZE_T_MAX, -1) == 1;
  Py_XDECREF(folder);
  return is;
}

PyObject *origin_called(void) {
  PyFrameObject *frame = PyEval_GetFrame();
  PyObject *name = NULL;
  int is_ours = 1;
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject *c = code(frame);
    is_ours = is_ours && is_own(c->co_filename) && !is_tracing(c->co_filename);
    if (is_ours && is_public(c)) Py_XSETREF(name, typed(c));
    Py_DECREF(c);
    PyFrameObject *next = is_ours ? outer(frame) : NULL;
    Py_DECREF(frame);
    frame = next;
  }
  if (!name) PyErr_Clear();
  return name;
}

PyObject *origin_text(uint64_t tag) {
  guard(table);
  struct line line = tag && tag < n_lines ? lines[tag] : (struct line){ NULL, 0 };
  unguard(table);
  if (!line.file) Py_RETURN_NONE;
  return PyUnicode_FromFormat("%U:%d", line.file, line.number);
}

static PyObject *hide(PyObject *module, PyObject *folder) {
  (void)module;
  if (!PyUnicode_Check(folder)) return PyErr_Format(PyExc_TypeError, "hide_frames_of: a folder is a string");
  guard(table);
  PyObject *old[] = { (PyObject *)last.code, own_folder };
  last.code = NULL, own_folder = Py_NewRef(folder);
  unguard(table);
  for (int i = 0; i < 2; i++) Py_XDECREF(old[i]);
  Py_RETURN_NONE;
}

static PyObject *from_elsewhere(PyObject *module, PyObject *args) {
  PyObject *file;
  int number;
  uint32_t before = given;
  (void)module;
  if (!PyArg_ParseTuple(args, "Oi", &file, &number)) return NULL;
  if (file != Py_None && !PyUnicode_Check(file)) return PyErr_Format(PyExc_TypeError, "built_from: a file is a string");
  guard(table);
  if (file != Py_None) given = tag_of(file, number);
  else given = number < 0 || (size_t)number >= n_lines ? 0 : (uint32_t)number;
  unguard(table);
  return PyLong_FromUnsignedLong(before);
}

static PyObject *called(PyObject *module, PyObject *unused) {
  PyObject *name = ((void)module, (void)unused, origin_called());
  return name ? name : PyUnicode_FromString("weft");
}

PyMethodDef origin_functions[] = {
  { "called", called, METH_NOARGS, "called(): the name of the function of weft that the user's line calls, for messages." },
  { "built_from", from_elsewhere, METH_VARARGS,
    "built_from(file, line): what this thread builds from now on comes from there. Returns a number; built_from(None, number) is "
    "as before." },
  { "hide_frames_of", hide, METH_O, "Frames of files whose name begins so are not where an operation comes from." },
  { 0 },
};
