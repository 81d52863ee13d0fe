/* apart.c -- what is done between the operations of all threads. With the GIL everything is. Without it (a build of Python for free
 * threads that PYTHON_GIL=0 keeps from taking it, as the module does not say it can do without) threads are stopped where Python
 * may stop them, which is where one would let the GIL go: what is borrowed from an object in between is safe from either. Nothing
 * crashes then; of two threads that write into one array at once, one may be too late, and its write is lost. */
#include "core.h"

#ifdef Py_GIL_DISABLED
static int has_gil(void) {
  PyObject *ask = PySys_GetObject("_is_gil_enabled"), *is = ask ? PyObject_CallNoArgs(ask) : NULL;
  int has = is == Py_True;
  Py_XDECREF(is);
  if (!is) PyErr_Clear();
  return has;
}

struct work { void (*work)(void *); void *of; };

static int first(PyObject *object, void *arg) { /* of all objects that Python shows while it stands still */
  const struct work *w = arg;
  (void)object;
  w->work(w->of);
  return 0;
}

void run_apart(void (*work)(void *), void *of) {
  static int has = -1;
  if (has < 0) has = has_gil();
  if (has) work(of);
  else PyUnstable_GC_VisitObjects(first, &(struct work){ work, of });
}
#else
void run_apart(void (*work)(void *), void *of) { work(of); }
#endif
