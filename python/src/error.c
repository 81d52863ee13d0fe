/* error.c -- statuses as exceptions: the message with Python's names in place of C's, and the user's line that built the
 * failing operation. */
#include "names.h"
#include <string.h>

static PyObject *no_value, *no_axis, *no_place, *no_truth; /* weft.NoValueError, AxisError, RangeError, CheckError */

/* A class that is two at once, as NumPy's AxisError: programs for weft or NumPy, for older and for newer MLX catch the one or the
 * other, and where a value is computed nobody knows whose program asked. */
static PyObject *add_both(PyObject *module, const char *name, PyObject *one, PyObject *other, const char *doc) {
  PyObject *bases = PyTuple_Pack(2, one, other);
  PyObject *kind = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, NULL) : NULL;
  Py_XDECREF(bases);
  return kind && !PyObject_SetAttrString(module, strchr(name, '.') + 1, kind) ? kind : NULL;
}

int error_add_types(PyObject *module) {
  no_axis = add_both(module, "weft.AxisError", PyExc_ValueError, PyExc_IndexError,
                     "An axis that an array does not have: a ValueError and an IndexError.");
  no_place = add_both(module, "weft.RangeError", PyExc_ValueError, PyExc_IndexError,
                      "An index that its axis does not have: a ValueError and an IndexError.");
  no_truth = add_both(module, "weft.CheckError", PyExc_AssertionError, PyExc_RuntimeError,
                      "A condition of assert_ that does not hold: an AssertionError and a RuntimeError.");
  no_value = add_both(module, "weft.NoValueError", PyExc_ValueError, PyExc_RuntimeError,
                      "The value, or the size, of something that has none yet, as an argument of a function that is being traced: "
                      "a ValueError and a RuntimeError.");
  return no_axis && no_place && no_truth && no_value ? 0 : -1;
}

void *raise_unsized(const char *text) { return PyErr_Clear(), PyErr_SetString(no_value, text), NULL; }
int raised_no_value(void) { return PyErr_ExceptionMatches(no_value); }

int raise_no_place(Py_ssize_t i, int axis, int64_t size) {
  return PyErr_Format(no_place, "the index %zd is out of range for axis %d of %lld", i, axis, (long long)size), -1;
}

PyObject *raise_no_axis(Py_ssize_t axis, int rank) { return PyErr_Format(no_axis, "there is no axis %zd among %d", axis, rank); }

/* What Python says for functions of C that it has under no name of their own. */
static const struct { const char *c, *python; } spelled[] = {
  { "at", "an index" },     { "from", "array" },              { "map", "vmap" },          { "put", "an assignment" },
  { "read", "eval" },       { "slice", "a slice" },           { "input", "traced argument" }, { "pin", "memoryview" },
  { "scope_close", "eval" }, { "custom", "custom_function" }, { "call", "a compiled function" }, { "external", "asarray" },
  { "file_open", "load" },  { "file_get", "load" },           { "eval_async", "async_eval" }, { "unsqueeze", "expand_dims" },
  { "pad_with", "pad" },
};
enum { n_spelled = sizeof spelled / sizeof *spelled };

/* How many letters, digits, dots and underscores a text begins with. */
static size_t word_length(const char *s) {
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._");
}

/* How many characters of a message, with the colon, say whose it is: "sum: ..". 0: nobody's; -1: it is not to be touched. */
static Py_ssize_t signed_by(const char *s, PyObject *type) {
  size_t n = strcspn(s, ": ");
  if (*s == '[' && n > 2 && !strncmp(s + n - 1, "] ", 2)) return -1; /* "[eval] .." */
  if (n > 2 && !strncmp(s + n - 2, "() ", 3) && names_public(s, n - 2)) return -1;
  if (n && n == word_length(s) && !strncmp(s + n, ": ", 2)) return type == no_place && names_public(s, n) ? -1 : (Py_ssize_t)n + 2;
  for (size_t i = 0; i < n_spelled; i++) {
    n = strlen(spelled[i].python);
    if (!strncmp(s, spelled[i].python, n) && !strncmp(s + n, ": ", 2)) return (Py_ssize_t)n + 2;
  }
  return 0;
}

/* What Python's code has raised, the user's perhaps, has been traced, and stays as it is. So does an index that was found to be out
 * of range when it was computed: whose it is was said there. */
void raised_by(const char *name) {
  PyObject *type, *value, *trace, *text = NULL, *called = NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *const named[] = { PyExc_ValueError, PyExc_TypeError, PyExc_IndexError, PyExc_NotImplementedError, no_axis, no_place };
  int is_ours = 0;
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) is_ours |= !trace && type == named[i];
  const char *s = is_ours && value && (text = PyObject_Str(value)) ? PyUnicode_AsUTF8(text) : NULL;
  Py_ssize_t n = s ? signed_by(s, type) : -1;
  const char *by = n >= 0 && (called = origin_called()) ? PyUnicode_AsUTF8(called) : name;
  if (n >= 0 && by) {
    PyErr_Format(type, "%s: %s", by, s + n);
    Py_XDECREF(type), Py_XDECREF(value);
  } else {
    PyErr_Restore(type, value, trace);
  }
  Py_XDECREF(text), Py_XDECREF(called);
}

PyObject *raise_no_size(weft_array *a, int axis) {
  weft_status s = weft_check(a);
  return s ? raise_status(s) : PyErr_Format(no_value, "the size of axis %d is not known yet", axis);
}

/* Such an array has no rank: who takes -1 for one finds another mistake. */
int raise_failed(PyObject *o) {
  if (!array_check(o) || weft_rank(array_handle(o)) >= 0) return 0;
  PyErr_Clear();
  raise_status(weft_check(array_handle(o)));
  return 1;
}

static PyObject *type_of(weft_status s) {
  switch (s) {
    case WEFT_ERR_DTYPE: return flavour() == &mlx_array_type ? PyExc_ValueError : PyExc_TypeError;
    case WEFT_ERR_INDEX: return no_place;
    case WEFT_ERR_MEMORY: return PyExc_MemoryError;
    case WEFT_ERR_FILE: return PyExc_OSError;
    case WEFT_ERR_UNSUPPORTED: return PyExc_NotImplementedError;
    case WEFT_ERR_ASSERT: return no_truth;
    case WEFT_ERR_NAN: return PyExc_FloatingPointError;
    case WEFT_ERR_TIMEOUT: return PyExc_TimeoutError;
    case WEFT_ERR_NO_VALUE: return no_value;
    case WEFT_ERR_ARG: case WEFT_ERR_SHAPE: case WEFT_ERR_NO_HISTORY: return PyExc_ValueError;
    default: return PyExc_RuntimeError;
  }
}

/* Loops and choices are called by the function that is being traced. */
static const char *python_name(const char *c, size_t n) {
  if (body_name() && ((n > 5 && !memcmp(c, "loop_", 5)) || (n > 5 && !memcmp(c, "cond_", 5)))) return body_name();
  if (n > 5 && !memcmp(c, "loop_", 5)) return "a loop";
  if (n == 9 && !memcmp(c, "attention", 9) && flavour() == &mlx_array_type) return "scaled_dot_product_attention";
  for (size_t i = 0; i < n_spelled; i++)
    if (strlen(spelled[i].c) == n && !memcmp(spelled[i].c, c, n)) return spelled[i].python;
  return names_of_c(c, n);
}

/* A word of C's as Python has it, or NULL: a function that has no row loses its prefix, WEFT_ANY is -1, f32 is float32. A dtype
 * stands alone between blanks or the like: what users have named, a file or an axis, stays. */
static PyObject *python_word(const char *word, size_t n, int is_alone) {
  if (n == 8 && !memcmp(word, "WEFT_ANY", n)) return PyUnicode_FromString("-1");
  const char *dtype = is_alone ? dtype_text_of_c(word, n) : NULL;
  if (dtype) return PyUnicode_FromString(dtype);
  if (n <= 5 || memcmp(word, "weft_", 5)) return NULL;
  const char *c = word + 5, *name = python_name(c, n -= 5);
  if (name) return PyUnicode_FromString(name);
  size_t module = n > 7 && !memcmp(c, "random_", 7) ? 7 : 0; /* of its own in Python */
  PyObject *text = PyUnicode_FromString(module ? "random." : "");
  PyUnicode_AppendAndDel(&text, PyUnicode_DecodeUTF8(c + module, (Py_ssize_t)(n - module), "replace"));
  return text;
}

/* The message, with Python's words in it. */
static PyObject *in_python_names(const char *message) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  PyObject *text = PyUnicode_FromString("");
  for (const char *at = message, *next; text && *at; at = next) {
    size_t n = strspn(at, letters);
    int is_alone = (at == message || strchr(" ([", at[-1])) && (!at[n] || strchr(" ,;:)]", at[n]));
    PyObject *word = n ? python_word(at, n, is_alone) : NULL;
    next = n ? at + n : at + strcspn(at, letters);
    if (!word && !PyErr_Occurred()) word = PyUnicode_DecodeUTF8(at, next - at, "replace");
    PyUnicode_AppendAndDel(&text, word);
  }
  return text;
}

PyObject *raise_status(weft_status s) {
  if (PyErr_Occurred()) return NULL; /* a rule or a signal handler raised: that is the cause */
  if (s == WEFT_ERR_ASSERT) return PyErr_SetString(no_truth, weft_message()), NULL; /* as it was given */
  if (s == WEFT_ERR_RULE && host_raise(weft_message())) return NULL;
  PyObject *line = origin_text(weft_blame()), *message = line ? in_python_names(weft_message()) : NULL;
  if (message && s == WEFT_ERR_NO_VALUE && flavour() == &mlx_array_type) { /* others look for these words of MLX's */
    const char *words = "[eval] Attempting to eval an array during function transformations is not allowed";
    Py_SETREF(message, PyUnicode_FromFormat("%s: %U", words, message));
  }
  if (message && line == Py_None) PyErr_SetObject(type_of(s), message);
  else if (message) PyErr_Format(type_of(s), "%U (%U)", message, line);
  Py_XDECREF(message);
  Py_XDECREF(line);
  return NULL;
}
