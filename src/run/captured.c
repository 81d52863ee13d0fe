/* captured.c -- whether a function has captured names: inputs of a function, or variables of a loop, that is being written around
 * it. A result that reads one has no value where it is called, but will have one in what is being written. */
#include "run/evaluation.h"
#include "graph/function.h"

enum { NOT_LOOKED, NO_NAMES, NAMES };
enum { MOST = 64 }; /* functions that are looked at; beyond, some may have */

struct looked_at { int n; struct weft_function *function[MOST]; };

static bool meet(struct looked_at *m, struct weft_function *f) {
  if (atomic_load_explicit(&f->names, memory_order_relaxed) == NO_NAMES) return true;
  for (int k = 0; k < m->n; k++) if (m->function[k] == f) return true;
  if (m->n == MOST) return false;
  m->function[m->n++] = f;
  return true;
}

/* Calls in a body are of what was captured: their functions are met too. Out of memory: some may be. */
static bool reads_names(const struct weft_function *f, struct looked_at *m) {
  struct node_list l;
  if (!walk(&l, f->n_out, f->out, eval_stops)) return true;
  bool found = false;
  for (int i = 0; i < l.n && !found; i++) {
    const struct node *n = l.node[i];
    if (n->op == &op_call) found = !node_has_value(n) && !meet(m, ((const struct call_attr *)n->attr)->function);
    else found = (n->op == &op_input || n->op == &op_loop_var) && !node_has_value(n) && !function_has_input(f, n);
  }
  node_list_free(&l);
  return found;
}

bool eval_captures_names(struct weft_function *f) {
  int names = atomic_load_explicit(&f->names, memory_order_relaxed);
  if (names != NOT_LOOKED) return names == NAMES;
  struct looked_at m = { 0 };
  bool found = !meet(&m, f);
  for (int k = 0; k < m.n && !found; k++) found = reads_names(m.function[k], &m);
  atomic_store_explicit(&f->names, found ? NAMES : NO_NAMES, memory_order_relaxed);
  return found;
}
