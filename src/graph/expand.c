/* expand.c -- calls replaced by the bodies of their functions: all of them, or those whose functions have captured something. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/function.h"
#include "graph/recall.h"
#include "op/op.h"

_Atomic bool calls_some;

struct expansion {
  struct copy c;
  bool *is_expanded;      /* by node: it is a call that is replaced. NULL: nothing is */
};

static bool no_memory(struct copy *c) { return copy_fail(c, fail(WEFT_ERR_MEMORY, 0, "weft: out of memory")); }

/* results[i]: what the call at i has become, a reference each. */
static bool expand(struct copy *c, int i, struct node **results[]) {
  const struct call_attr *call = c->g.node[i]->attr;
  int n_in = subgraph_arity(&c->g, i);
  struct node **in = mem_alloc((size_t)(n_in ? n_in : 1) * sizeof *in);
  results[i] = mem_alloc((size_t)(call->n_out ? call->n_out : 1) * sizeof **results);
  bool ok = in && results[i] ? true : no_memory(c);
  for (int k = 0; ok && k < n_in; k++) in[k] = copy_of(c, c->g.operand[c->g.first[i] + k]);
  struct failure *why = NULL;
  if (ok && !function_expand(call->function, in, results[i], &why)) ok = copy_fail(c, why);
  mem_free(in);
  return ok;
}

bool call_is_whole(const struct subgraph *g, int i) {
  return g->node[i]->op == &op_call && subgraph_arity(g, i) == ((const struct call_attr *)g->node[i]->attr)->function->n_in;
}

/* An item of a call whose inputs are not in the snapshot (it has a value) stays what it is. */
static bool expand_at(struct expansion *e, int i, struct node **results[]) {
  struct copy *c = &e->c;
  const struct node *n = c->g.node[i];
  if (e->is_expanded[i]) return expand(c, i, results);
  if (n->op != &op_item || !subgraph_arity(&c->g, i)) return copy_node(c, i);
  struct node **made = results[c->g.operand[c->g.first[i]]];
  if (!made) return copy_node(c, i);
  return copy_replace(c, i, node_retain(made[((const struct item_attr *)n->attr)->k])); /* of its own, even if it is an argument */
}

static void free_results(const struct subgraph *g, struct node **results[]) {
  for (int i = 0; i < g->n; i++) {
    if (!results[i]) continue;
    nodes_release(((const struct call_attr *)g->node[i]->attr)->n_out, results[i]);
    mem_free(results[i]);
  }
  mem_free(results);
}

static bool changes(const struct copy *c, int i) { return ((const struct expansion *)c)->is_expanded[i]; }

static bool expand_marked(struct expansion *e) {
  e->c.kind = COPY_SAME;
  if (!copy_renew(&e->c, changes)) return false;
  struct node ***results = mem_alloc((size_t)e->c.g.n * sizeof *results);
  bool ok = results ? true : no_memory(&e->c);
  for (int i = 0; ok && i < e->c.g.n; i++) ok = expand_at(e, i, results);
  if (results) free_results(&e->c.g, results);
  return ok;
}

/* ---- Which calls ---- */

/* Marks all calls that have their operands, or those that `is_one` says: 1, not 0; -1: out of memory. */
static bool mark(struct expansion *e, int (*is_one)(struct weft_function *, const void *), const void *ctx, bool *some) {
  const struct subgraph *g = &e->c.g;
  const struct weft_function *last = NULL;
  int yes = 1;
  *some = false;
  for (int i = 0; i < g->n; i++) {
    if (g->node[i]->op != &op_call) continue;
    struct weft_function *f = ((const struct call_attr *)g->node[i]->attr)->function;
    if (is_one && f != last) yes = is_one(f, ctx);
    if (yes < 0 || (!e->is_expanded && !(e->is_expanded = mem_alloc((size_t)g->n)))) return no_memory(&e->c);
    last = f, *some |= e->is_expanded[i] = yes && call_is_whole(g, i);
  }
  return true;
}

/* By node: whether what it is computed from has a wall in it. A size is no value of one. NULL: out of memory. */
static bool *of_walls(const struct subgraph *g, int n_walls) {
  bool *is = mem_alloc((size_t)g->n + 1);
  for (int j = 0; is && j < n_walls; j++) if (g->wall[j] >= 0) is[g->wall[j]] = true;
  for (int i = 0; is && i < g->n; i++)
    for (int at = g->first[i]; at < g->first[i + 1] && g->node[i]->op->kind != OP_SIZE; at++) is[i] |= is[g->operand[at]];
  return is;
}

/* Unmarks the calls that read no wall. */
static bool spare_others(struct expansion *e, int n_walls, bool *some) {
  bool *is = *some ? of_walls(&e->c.g, n_walls) : NULL;
  if (*some && !is) return no_memory(&e->c);
  *some = false;
  for (int i = 0; is && i < e->c.g.n; i++) *some |= e->is_expanded[i] &= is[i];
  mem_free(is);
  return true;
}

static bool end(struct expansion *e, int n, struct node *out[], struct failure **failure) {
  mem_free(e->is_expanded);
  return copy_end(&e->c, n, out, failure);
}

/* Which calls are expanded: those that `is_one` says, NULL: all; not beyond walls, and not below nodes with a smaller serial.
 * spares_others: only those that read a wall. */
struct wanted {
  int (*is_one)(struct weft_function *, const void *);
  const void *ctx;
  int n_walls;
  struct node *const *wall;
  uint64_t oldest;
  bool spares_others;
};

/* The targets anew, with such calls expanded: they are replaced, with their references. *some: there were any. */
static struct failure *expand_seen(const struct wanted *w, int n, struct node *target[], bool *some) {
  struct failure *why = NULL;
  struct node **out = mem_alloc((size_t)(n + 1) * sizeof *out);
  if (!out) return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory");
  struct expansion e = { 0 };
  bool ok = copy_begin(&e.c, n, target, w->n_walls, w->wall, w->oldest) && mark(&e, w->is_one, w->ctx, some);
  if (ok && w->spares_others) ok = spare_others(&e, w->n_walls, some);
  if (ok && *some) expand_marked(&e);
  if (end(&e, n, out, &why))
    for (int j = 0; j < n; j++) node_release(target[j]), target[j] = out[j];
  mem_free(out);
  return why;
}

/* The same until none is left: a body has no calls of its own, but what it has captured may be what other calls gave. */
static struct failure *expand_wanted(const struct wanted *w, int n, struct node *target[]) {
  struct failure *why = NULL;
  for (bool some = true; some && !why;) some = false, why = expand_seen(w, n, target, &some);
  return why;
}

struct failure *expand_calls_within(uint64_t oldest, int n_walls, struct node *const wall[], int n, struct node *target[]) {
  const struct wanted all = { .n_walls = n_walls, .wall = wall, .oldest = oldest };
  return atomic_load(&calls_some) ? expand_wanted(&all, n, target) : NULL;
}

struct failure *expand_calls_since(uint64_t oldest, int n, struct node *target[]) {
  return expand_calls_within(oldest, 0, NULL, n, target);
}

struct failure *expand_calls_of(int n, struct node *const x[], int m, struct node *y[]) {
  const struct wanted those = { .n_walls = n, .wall = x, .oldest = oldest_of(n, x), .spares_others = true };
  return atomic_load(&calls_some) && n ? expand_wanted(&those, m, y) : NULL;
}

/* ---- What a function has captured ---- */

/* Arrays that were asked for; none: all that can be. */
struct sought { uint64_t oldest; int n; struct node *const *x; };

static bool is_sought(const struct sought *s, const struct node *n) {
  if (!s->n) return n->op == &op_value || n->op == &op_input || n->op == &op_loop_var;
  for (int j = 0; j < s->n; j++) if (node_same(s->x[j]) == node_same(n)) return true;
  return false;
}

/* Whether x is made of an input: in a call it is another one. -1: out of memory. */
static int is_of_input(const struct weft_function *f, struct node *x) {
  struct subgraph g;
  int found = 0;
  if (!subgraph_take(&g, 1, &x, 0, NULL, oldest_of(f->n_in, f->in))) return -1;
  for (int i = 0; i < g.n && !found; i++) found = function_has_input(f, g.node[i]);
  subgraph_free(&g);
  return found;
}

/* Whether a loop or choice of the body has a copy of one of them, which is for whoever finds that out to say. */
static int captures_inside(const struct weft_function *f, const struct sought *s) {
  int lost = s->n ? recall_lost(s->n, s->x, NULL, f->n_out, f->out, f->n_in, f->in) : -1;
  if (lost < 0) return lost == -1 ? 0 : -1;
  int is_of = is_of_input(f, s->x[lost]);
  return is_of < 0 ? is_of : !is_of;
}

/* Functions whose bodies are to be looked at, each once. They are held, since who calls them may be dropped meanwhile. */
struct met { int n, room; struct weft_function **function; };

static bool meet(struct met *m, struct weft_function *f) {
  for (int k = 0; k < m->n; k++) if (m->function[k] == f) return true;
  if (m->n == m->room) {
    struct weft_function **more = mem_resize(m->function, (size_t)(2 * m->room + 4) * sizeof *more);
    if (!more) return false;
    m->function = more, m->room = 2 * m->room + 4;
  }
  function_retain(m->function[m->n++] = f);
  return true;
}

/* Whether the body reads one of them otherwise than as an input, or something whose history is gone and may have led there. Calls
 * in it are of what was captured: their functions are met too. -1: out of memory. */
static int reads(const struct sought *s, const struct weft_function *f, struct met *m) {
  struct subgraph g;
  int found = 0;
  if (!subgraph_take(&g, f->n_out, f->out, f->n_in, f->in, s->oldest)) return -1;
  for (int i = 0; i < g.n && !found; i++) {
    const struct node *n = g.node[i];
    if (n->serial < s->oldest || function_has_input(f, n)) continue;
    if (n->op == &op_call && !meet(m, ((const struct call_attr *)n->attr)->function)) found = -1;
    else found = subgraph_is_dropped(&g, i) || is_sought(s, n);
  }
  subgraph_free(&g);
  return found ? found : captures_inside(f, s);
}

/* The same of a function, or of one that made what it has captured. */
static int captures(struct weft_function *f, const void *ctx) {
  struct met m = { 0 };
  int found = meet(&m, f) ? 0 : -1;
  for (int k = 0; k < m.n && !found; k++) found = reads(ctx, m.function[k], &m);
  for (int k = 0; k < m.n; k++) function_release(m.function[k]);
  mem_free(m.function);
  return found;
}

struct failure *expand_captors(int n, struct node *x[], int m, struct node *y[]) {
  if (!atomic_load(&calls_some) || !n) return NULL;
  struct node **all = mem_alloc((size_t)(m + n) * sizeof *all);
  if (!all) return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory");
  for (int j = 0; j < m; j++) all[j] = y[j];
  for (int j = 0; j < n; j++) all[m + j] = node_retain(x[j]);
  struct sought s = { oldest_of(n, x), n, x };
  struct failure *why = expand_wanted(&(struct wanted){ captures, &s, .oldest = s.oldest }, m + n, all);
  for (int j = 0; j < m; j++) y[j] = all[j];
  for (int j = 0; j < n; j++) node_release(x[j]), x[j] = all[m + j];
  mem_free(all);
  return why;
}

struct failure *expand_captors_between(int n, struct node *const x[], int m, struct node *y[]) {
  if (!atomic_load(&calls_some)) return NULL;
  return expand_wanted(&(struct wanted){ captures, &(struct sought){ 0 }, n, x, oldest_of(n, x) }, m, y);
}
