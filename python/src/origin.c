/* origin.c -- the lines of the user's program that nodes come from. A tag is an index into a table of (file, line);
 * frames of this package are passed over, so that the tag is the line that called it. The table only grows, by one
 * entry for each line that ever built a node. Guarded by the GIL. */
#include "core.h"
#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

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

static void forget_last(void) { Py_CLEAR(last.code); }

/* The tag of a line of the user's; 0: a frame of ours. */
static uint32_t tag_at(PyFrameObject *frame, PyCodeObject *c) {
  int at = place(frame);
  if (c == last.code && at == last.at && at >= 0) return last.tag;
  if (is_own(c->co_filename)) return 0;
  uint32_t tag = tag_of(c->co_filename, PyFrame_GetLineNumber(frame));
  Py_INCREF(c);
  Py_XSETREF(last.code, c);
  last.at = at, last.tag = tag;
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

PyObject *origin_text(uint64_t tag) {
  if (!tag || tag >= n_lines) Py_RETURN_NONE;
  return PyUnicode_FromFormat("%U:%d", lines[tag].file, lines[tag].number);
}

static PyObject *hide(PyObject *module, PyObject *folder) {
  (void)module;
  if (!PyUnicode_Check(folder)) return PyErr_Format(PyExc_TypeError, "hide_frames_of: a folder is a string");
  forget_last();
  Py_XDECREF(own_folder);
  own_folder = Py_NewRef(folder);
  Py_RETURN_NONE;
}

static PyObject *from_elsewhere(PyObject *module, PyObject *args) {
  PyObject *file;
  int number;
  uint32_t before = given;
  (void)module;
  if (!PyArg_ParseTuple(args, "Oi", &file, &number)) return NULL;
  if (file == Py_None) given = number < 0 || (size_t)number >= n_lines ? 0 : (uint32_t)number;
  else if (PyUnicode_Check(file)) given = tag_of(file, number);
  else return PyErr_Format(PyExc_TypeError, "built_from: a file is a string");
  return PyLong_FromUnsignedLong(before);
}

PyMethodDef origin_functions[] = {
  { "built_from", from_elsewhere, METH_VARARGS,
    "built_from(file, line): what this thread builds from now on comes from there. Returns a number; built_from(None, number) is "
    "as before." },
  { "hide_frames_of", hide, METH_O, "Frames of files whose name begins so are not where an operation comes from." },
  { 0 },
};
