/* evaluate.c -- computing and waiting. The GIL is released while weft works longer than a moment. On the main thread,
 * where Python runs signal handlers, Ctrl-C stops the work; what it was to compute is lazy again and can be asked for
 * once more. */
#include "core.h"
#include "names.h"
#include <signal.h>
#include <string.h>

static const double look_again_s = 0.05; /* how often a wait lets signal handlers run */

/* Nothing left to do: READY; something failed: FAILED, with the exception; something is being computed: RUNNING. */
static weft_state state_of(int n, weft_array *const a[]) {
  weft_state all = WEFT_READY;
  for (int i = 0; i < n; i++) {
    weft_state state = weft_state_of(a[i], NULL);
    weft_status s = state == WEFT_FAILED ? weft_check(a[i]) : WEFT_OK;
    if (s) return raise_status(s), WEFT_FAILED;
    if (state == WEFT_RUNNING || (state == WEFT_LAZY && all == WEFT_READY)) all = state;
  }
  return all;
}

static weft_status wait(int n, weft_array *const a[], double seconds) {
  weft_status s;
  Py_BEGIN_ALLOW_THREADS
  s = weft_wait(n, a, seconds);
  Py_END_ALLOW_THREADS
  return s;
}

static weft_status start(int n, weft_array *const a[]) {
  weft_status s;
  Py_BEGIN_ALLOW_THREADS
  s = weft_eval_async(n, a);
  Py_END_ALLOW_THREADS
  return s;
}

/* ---- Ctrl-C ---- */

static volatile int interrupted;                /* the flag of the main thread's work */
static PyOS_sighandler_t before;                /* Python's own handler, which notes the signal */

static void on_interrupt(int signal_number) {
  interrupted = 1;
  before(signal_number);
}

static int is_main_thread(void) {
  static unsigned long main_thread;
  if (!main_thread) {
    PyObject *threading = PyImport_ImportModule("threading"),
             *main = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = main ? PyObject_GetAttrString(main, "ident") : NULL;
    main_thread = ident ? PyLong_AsUnsignedLong(ident) : 0;
    Py_XDECREF(ident);
    Py_XDECREF(main);
    Py_XDECREF(threading);
    PyErr_Clear();
  }
  return main_thread == PyThread_get_thread_ident();
}

/* Only where Python handles the signal: a host that ignores it, or dies of it, keeps that. */
static int watch_begin(void) {
  before = PyOS_getsig(SIGINT);
  if (before == SIG_DFL || before == SIG_IGN || before == SIG_ERR) return 0;
  PyOS_setsig(SIGINT, on_interrupt);
  return 1;
}

/* ---- Evaluation ---- */

/* What runs already cannot be stopped from here, but need not be waited for. */
static int wait_for_running(int n, weft_array *const a[]) {
  for (int i = 0; i < n; i++)
    while (weft_state_of(a[i], NULL) == WEFT_RUNNING)
      if (wait(1, &a[i], look_again_s) == WEFT_ERR_TIMEOUT && PyErr_CheckSignals()) return -1;
  return 0;
}

/* What takes but a moment is done with the GIL held and nobody watching: both would take longer. */
struct work {
  int can_watch, is_watching;
  PyThreadState *without; /* the GIL was let go */
  struct work *outside;   /* a release callback may run Python, which may evaluate */
};
static _Thread_local struct work *working;

static void long_begins(void *ctx) {
  struct work *w = ctx;
  if (w->without) return;
  w->is_watching = w->can_watch && watch_begin();
  w->without = PyEval_SaveThread();
}

static void work_begin(struct work *w) {
  struct work **here = &working; /* to look for a thread's own costs a call */
  *w = (struct work){ .can_watch = !*here && is_main_thread(), .outside = *here };
  if (w->can_watch) {
    interrupted = 0;
    weft_cancel_when(&interrupted);
  }
  *here = w;
  weft_before_long(long_begins, w);
}

static void work_end(struct work *w) {
  working = w->outside;
  weft_before_long(w->outside ? long_begins : NULL, w->outside);
  if (w->can_watch) weft_cancel_when(NULL);
  if (w->without) PyEval_RestoreThread(w->without);
  if (w->is_watching) PyOS_setsig(SIGINT, before);
}

/* A handler that does not raise wants the work to go on. */
static int compute(int n, weft_array *const a[]) {
  struct work w;
  weft_status s;
  do {
    work_begin(&w);
    s = weft_eval(n, a);
    work_end(&w);
    if (w.without && PyErr_CheckSignals()) return -1;
  } while (s == WEFT_ERR_CANCELLED && w.is_watching);
  return s ? (raise_status(s), -1) : 0;
}

int evaluate(int n, weft_array *const a[]) {
  weft_state state = state_of(n, a);
  int failed = state == WEFT_FAILED || (state == WEFT_RUNNING && wait_for_running(n, a)) || (state != WEFT_READY && compute(n, a));
  return failed ? -1 : 0;
}

int evaluate_new(int n, weft_array *const a[]) { return n ? compute(n, a) : 0; }

int evaluate_closing(weft_scope *scope) {
  struct work w;
  work_begin(&w);
  weft_status s = weft_scope_close(scope);
  work_end(&w);
  if (s == WEFT_ERR_RULE) raise_status(s);
  else if (s && w.without) (void)PyErr_CheckSignals(); /* what is done is done: Python looks for signals soon enough */
  return s ? -1 : 0;
}

int evaluate_into(weft_array *a, void *values, size_t bytes) {
  weft_own(a);
  int failed = evaluate(1, &a);
  weft_status s = failed ? WEFT_OK : weft_read(a, weft_dtype_of(a), values, bytes);
  if (s) raise_status(s), failed = -1;
  weft_disown(a);
  return failed;
}

static int eval_one(PyObject *o) {
  weft_array *a = weft_own(array_handle(o));
  int failed = evaluate(1, &a);
  weft_disown(a);
  return failed;
}

static int eval_all(Py_ssize_t n, PyObject *const trees[]) {
  struct list l;
  PyObject *arrays = tree_arrays(n, trees);
  if (!arrays || list_take(&l, arrays)) return Py_XDECREF(arrays), -1;
  Py_DECREF(arrays);
  int failed = evaluate(l.n, l.array);
  list_drop(&l);
  return failed;
}

static PyObject *eval(PyObject *module, PyObject *const trees[], Py_ssize_t n) {
  (void)module;
  if (n == 1 && array_check(trees[0]) ? eval_one(trees[0]) : eval_all(n, trees)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *async_eval_list(PyObject *module, PyObject *arrays) {
  struct list l;
  (void)module;
  if (list_take(&l, arrays)) return NULL;
  weft_status s = start(l.n, l.array);
  if (s) raise_status(s);
  list_drop(&l);
  if (s) return NULL;
  Py_RETURN_NONE;
}

/* Waits in slices, so that signals come through. */
static weft_status wait_long(struct list *l, double seconds) {
  weft_status s = WEFT_ERR_TIMEOUT;
  for (double left = seconds; s == WEFT_ERR_TIMEOUT && (seconds < 0 || left >= 0); left -= look_again_s) {
    s = wait(l->n, l->array, seconds >= 0 && left < look_again_s ? left : look_again_s);
    if (PyErr_CheckSignals()) break;
  }
  return s;
}

static PyObject *wait_list(PyObject *module, PyObject *args) {
  PyObject *arrays;
  double seconds;
  struct list l;
  (void)module;
  if (!PyArg_ParseTuple(args, "Od", &arrays, &seconds) || list_take(&l, arrays)) return NULL;
  weft_status s = l.n ? wait_long(&l, seconds) : WEFT_OK;
  if (s && s != WEFT_ERR_TIMEOUT) raise_status(s);
  list_drop(&l);
  return PyErr_Occurred() ? NULL : PyBool_FromLong(s == WEFT_OK);
}

/* What this thread has started, whether or not somebody still holds what comes of it. */
static PyObject *wait_all(PyObject *module, PyObject *unused) {
  struct list none = { 0 };
  (void)module, (void)unused;
  weft_status s = wait_long(&none, -1);
  if (s && !PyErr_Occurred()) raise_status(s);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyObject *state(PyObject *module, PyObject *o) {
  static const char *const names[] = {
    [WEFT_LAZY] = "lazy", [WEFT_RUNNING] = "running", [WEFT_READY] = "ready", [WEFT_FAILED] = "failed"
  };
  (void)module;
  if (!array_check(o)) return PyErr_Format(PyExc_TypeError, "state: an array is expected");
  return PyUnicode_FromString(names[weft_state_of(array_handle(o), NULL)]);
}

/* ---- Settings, and looking inside ---- */

static PyObject *get(PyObject *module, PyObject *setting) {
  long s = PyLong_AsLong(setting);
  (void)module;
  return s == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(weft_get((weft_setting)s));
}

static PyObject *set(PyObject *module, PyObject *args) {
  int setting;
  long long value, was;
  const char *name;
  (void)module;
  if (!PyArg_ParseTuple(args, "iLs", &setting, &value, &name)) return NULL;
  if ((was = weft_set((weft_setting)setting, value)) != -1) return PyLong_FromLongLong(was);
  return PyErr_Format(PyExc_ValueError, "%s%s", name, strchr(weft_message(), ':'));
}

static PyObject *show(PyObject *module, PyObject *args) {
  PyObject *arrays, *text = NULL;
  const char *what;
  struct list l;
  (void)module;
  if (!PyArg_ParseTuple(args, "Os", &arrays, &what) || list_take(&l, arrays)) return NULL;
  weft_scope *s = op_begin();
  const char *shown = weft_show(l.n, l.array, what);
  text = shown ? PyUnicode_DecodeUTF8(shown, (Py_ssize_t)strlen(shown), "replace") : raise_status(WEFT_ERR_ARG);
  weft_scope_discard(s);
  list_drop(&l);
  return text;
}

static PyObject *plan(PyObject *module, PyObject *arrays) {
  struct list l;
  weft_cost c;
  (void)module;
  if (list_take(&l, arrays)) return NULL;
  weft_scope *scope = op_begin();
  weft_status s = weft_plan(l.n, l.array, &c);
  if (s) raise_status(s);
  weft_scope_discard(scope);
  list_drop(&l);
  if (s) return NULL;
  return Py_BuildValue("{sLsLsLsLsisi}", "peak_bytes", (long long)c.peak_bytes, "scratch_bytes", (long long)c.scratch_bytes,
                       "moved_bytes", (long long)c.moved_bytes, "operations", (long long)c.operations, "kernels", c.kernels,
                       "library_calls", c.library_calls);
}

PyMethodDef evaluate_functions[] = {
  { "eval", (PyCFunction)(void (*)(void))eval, METH_FASTCALL,
    "eval(*trees): computes all arrays in the trees, together, and stores them. Ctrl-C stops it." },
  { "async_eval", async_eval_list, METH_O, "async_eval(arrays): starts computing them" },
  { "wait", wait_list, METH_VARARGS, "wait(arrays, seconds): whether they are ready; below 0, for ever" },
  { "wait_all", wait_all, METH_NOARGS, "wait_all(): until all that this thread has started is over" },
  { "state", state, METH_O, "state(array): 'lazy', 'running', 'ready' or 'failed'; never waits" },
  { "get", get, METH_O, "get(setting): see weft_get" },
  { "set", set, METH_VARARGS, "set(setting, value, name): the value before; ValueError names the function that is called so" },
  { "show", show, METH_VARARGS,
    "show(arrays, what): 'value', 'graph', 'dot', 'plan', 'kernels', 'asm', 'ptx', 'sass' or 'caches' as text" },
  { "einsum_path", einsum_path, METH_VARARGS, "einsum_path(subscripts, operands): see weft_einsum_path" },
  { "plan", plan, METH_O, "plan(arrays): what eval would do, as a dict; runs nothing" },
  { 0 },
};
