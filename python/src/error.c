/* error.c -- statuses as exceptions, with the user's line that built the failing operation. */
#include "core.h"

static PyObject *type_of(weft_status s) {
  switch (s) {
    case WEFT_ERR_DTYPE: return PyExc_TypeError;
    case WEFT_ERR_INDEX: return PyExc_IndexError;
    case WEFT_ERR_MEMORY: return PyExc_MemoryError;
    case WEFT_ERR_FILE: return PyExc_OSError;
    case WEFT_ERR_UNSUPPORTED: return PyExc_NotImplementedError;
    case WEFT_ERR_NAN: return PyExc_FloatingPointError;
    case WEFT_ERR_TIMEOUT: return PyExc_TimeoutError;
    case WEFT_ERR_ARG: case WEFT_ERR_SHAPE: case WEFT_ERR_NO_VALUE: case WEFT_ERR_NO_HISTORY: return PyExc_ValueError;
    default: return PyExc_RuntimeError;
  }
}

PyObject *raise_status(weft_status s) {
  if (PyErr_Occurred()) return NULL; /* a rule or a signal handler raised: that is the cause */
  PyObject *line = origin_text(weft_blame());
  if (!line) return NULL;
  if (line == Py_None) PyErr_SetString(type_of(s), weft_message());
  else PyErr_Format(type_of(s), "%s (%U)", weft_message(), line);
  Py_DECREF(line);
  return NULL;
}
