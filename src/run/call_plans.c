/* call_plans.c -- calls of functions: planned once for each combination of sizes, strides and wanted results. */
#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/function.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/show.h"
#include "run/tape.h"
#include "run/verdict.h"

struct call_plan {
  struct call_plan *next;
  int n_items;              /* results that are wanted */
  int64_t *word;            /* device and library, which results, and of each argument sizes and strides */
  struct plan *plan;        /* NULL: sizes depend on values, so the body is evaluated part by part */
  int n_leaves;             /* of the plan */
  int n_unread;             /* inputs that the body does not reach: a call fails with them as with the others */
  int *input;               /* by leaf: which input it is, or -1: captured. Behind them those that are not read */
  struct node **captured;   /* by leaf */
  bool *is_constant;        /* the same: it is captured */
  atomic_bool has_run;      /* then what its products pack of constants is kept: who calls but once has no use for it */
  _Atomic(struct tape *) tape; /* without a plan: what calls have run; NULL: nothing yet */
};
struct plan_set { _Atomic(struct call_plan *) entry; int n; }; /* read without the lock: entries only join, at the front */

pthread_mutex_t call_mutex = PTHREAD_MUTEX_INITIALIZER; /* of all sets: held while an entry joins */

/* Calls that take no longer are written down: what they compute in vain, where a later one tells other sizes, is little. */
static _Atomic int64_t short_ns = 200000;
void eval_write_calls(int64_t ns) { atomic_store(&short_ns, ns); }
enum { MOST = 256 }; /* plans of a function: they stay as long as it does. For further sizes the table of all plans is asked, which
                        forgets */

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_call: out of memory"); }

static void entry_free(struct call_plan *e) {
  for (int i = 0; e->captured && i < e->n_leaves; i++) node_release(e->captured[i]);
  plan_release(e->plan);
  tape_free(atomic_load(&e->tape));
  mem_free(e->word);
  mem_free(e->input);
  mem_free(e->captured);
  mem_free(e->is_constant);
  mem_free(e);
}

void plan_set_free(struct plan_set *s) {
  if (!s) return;
  for (struct call_plan *e = atomic_load(&s->entry), *next; e; e = next) {
    next = e->next;
    entry_free(e);
  }
  mem_free(s);
}

void plan_set_show(const struct plan_set *s, const char *what, struct text *t) {
  for (const struct call_plan *e = s ? atomic_load(&s->entry) : NULL; e; e = e->next) if (e->plan) plan_show(e->plan, what, t);
}

static struct plan_set *set_of(struct weft_function *f) {
  struct plan_set *s = atomic_load(&f->plans), *none = NULL;
  if (s) return s;
  if (!(s = mem_alloc(sizeof *s))) return NULL;
  if (atomic_compare_exchange_strong(&f->plans, &none, s)) return s;
  plan_set_free(s);
  return none;
}

/* ---- inputs ---- */

/* A number as memory, so that another number is no other plan. */
static struct node *number_leaf(const struct node *n) {
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  uint64_t bits = scalar_bits(n, (weft_dtype)n->dtype);
  void *data;
  struct buffer *b = buffer_to_fill(size, &data);
  if (!b) return NULL;
  memcpy(data, &bits, size);
  return value_node((weft_dtype)n->dtype, 0, NULL, b, 0, NULL);
}

/* A node to plan with: the same value under an identity of its own, since one array may be given for two arguments. */
static struct node *alias_of(struct node *n) {
  if (n->op == &op_scalar) return number_leaf(n);
  struct node *alias =
    value_node((weft_dtype)n->dtype, n->rank, n->dims, buffer_retain(n->value->buf), n->value->offset, n->value->stride);
  if (alias) alias->place = n->place;
  return alias;
}

/* What a plan of a call is for. The rank of an argument is the function's matter, so equal calls have equally many words. */

static int n_words(int n_in, struct node *const in[], int n) {
  int words = 1 + n;
  for (int i = 0; i < n_in; i++) words += 2 * in[i]->rank;
  return words;
}

static const int64_t *strides_of(const struct node *n) { return n->op == &op_scalar ? NULL : n->value->stride; }

/* Word by word: noted, or compared with what was until one differs. */
static bool meet(int64_t **word, bool notes, int64_t value) {
  if (notes) **word = value;
  return *(*word)++ == value;
}

/* What stands first of it: the device, and how products are computed. */
static int64_t first_word(const struct node *item) {
  const struct eval_settings *s = eval_settings();
  return 16 * device_for(item, s) + eval_products(s);
}

static bool is_for(int64_t *word, bool notes, int64_t first, int n_in, struct node *const in[], int n, struct node *const item[]) {
  bool same = meet(&word, notes, first);
  for (int i = 0; same && i < n; i++) same = meet(&word, notes, ((const struct item_attr *)item[i]->attr)->k);
  for (int i = 0; same && i < n_in; i++) {
    for (int d = 0; same && d < in[i]->rank; d++) same = meet(&word, notes, in[i]->dims[d]);
    for (int d = 0; same && d < in[i]->rank; d++) same = meet(&word, notes, strides_of(in[i])[d]);
  }
  return same;
}

/* ---- planning ---- */

static bool depends(const struct node *n, const bool *yes) {
  for (int k = 0; k < n->n_in; k++) if (yes[n->in[k]->slot]) return true;
  return false;
}

/* The symbols of the inputs, each with some number. false: out of memory. */
static bool symbols_of(const struct weft_function *f, struct dim_table *t) {
  for (int k = 0; k < f->n_in; k++)
    for (int d = 0; d < f->in[k]->rank; d++)
      if (dim_is_symbol(f->in[k]->dims[d]) && !dim_table_add(t, f->in[k]->dims[d], 1)) return false;
  return true;
}

/* Loops in whose bodies sizes of inputs are mentioned, though they may read none: a list that ends with NULL, without references.
 * NULL: out of memory. */
static const struct node **loops_sized(const struct weft_function *f) {
  struct dim_table symbols = { 0 };
  struct subgraph g = { 0 };
  int n = 0;
  bool ok = symbols_of(f, &symbols) && subgraph_take(&g, f->n_out, f->out, 0, NULL, 0);
  const struct node **list = ok ? mem_alloc(sizeof *list * (size_t)(g.n + 1)) : NULL;
  for (int i = 0; list && symbols.n && i < g.n; i++) {
    const struct loop *l = g.node[i]->op == &op_loop ? ((const struct loop_attr *)g.node[i]->attr)->loop : NULL;
    if (l && loop_mentions(l, &symbols)) list[n++] = g.node[i];
  }
  if (list) list[n] = NULL;
  if (ok) subgraph_free(&g);
  dim_table_free(&symbols);
  return list;
}

/* Sizes too are those of inputs: of the node, where it begins, in the bodies of a loop. */
static bool is_sized_by(const struct node *n, const struct node *const loop[]) {
  bool is = !node_is_known(n) || (n->op->is_open && n->op->is_open(n));
  for (int k = 0; !is && n->op == &op_loop && loop[k]; k++) is = loop[k] == n;
  return is;
}

/* What the items are in the body, borrowed. NULL: out of memory. */
static struct node **outputs_of(const struct weft_function *f, int n, struct node *const item[]) {
  struct node **out = mem_alloc(sizeof *out * (size_t)(n + 1));
  for (int i = 0; out && i < n; i++) out[i] = f->out[((const struct item_attr *)item[i]->attr)->k];
  return out;
}

/* Lazy values that the body uses for the items and no input changes are computed now, once; those of other results may fail. */
static struct failure *settle(struct weft_function *f, int n_items, struct node *const item[]) {
  struct node_list l;
  struct failure *failure = NULL;
  struct node **out = outputs_of(f, n_items, item);
  const struct node **loops = out ? loops_sized(f) : NULL;
  if (!loops) return mem_free(out), no_memory();
  graph_lock();
  bool ok = walk(&l, n_items, out, NULL);
  mem_free(out);
  if (!ok) return graph_unlock(), mem_free(loops), no_memory();
  bool *yes = mem_alloc((size_t)l.n + 1);
  struct node **todo = mem_alloc(sizeof *todo * (size_t)(l.n + 1));
  int n = 0;
  for (int i = 0; yes && i < l.n; i++)
    yes[i] = function_has_input(f, l.node[i]) || depends(l.node[i], yes) || is_sized_by(l.node[i], loops);
  for (int i = 0; yes && todo && i < l.n; i++) {
    if (!yes[i] || l.node[i]->op->kind == OP_LOOP) continue;
    for (int k = 0; k < l.node[i]->n_in; k++) {
      struct node *c = l.node[i]->in[k];
      bool is_known = !yes[c->slot] && !c->op->many && c->op->kind != OP_LEAF && c->op->kind != OP_VIEW && c->op->kind != OP_IOTA &&
                      c->op->kind != OP_SIZE && atomic_load(&c->state) == NODE_LAZY;
      if (is_known) todo[n++] = node_retain(c), yes[c->slot] = true;
    }
  }
  node_list_free(&l);
  graph_unlock();
  if (!yes || !todo) failure = no_memory();
  else if (n) eval_nodes(n, todo, &(struct eval_options){ .only_targets = true }, &failure);
  nodes_release(n, todo);
  mem_free(yes);
  mem_free(todo);
  mem_free(loops);
  return failure;
}

/* The body on these inputs: *out are all its outputs, to be dropped, *target those that the items are. */
static struct failure *expand_items(struct weft_function *f, struct node *const in[], int n, struct node *const item[],
                                    struct node ***out, struct node ***target) {
  struct failure *failure = NULL;
  *out = mem_alloc(sizeof **out * (size_t)(f->n_out + n + 1));
  if (!*out) return no_memory();
  if (!function_expand(f, in, *out, &failure)) return mem_free(*out), failure;
  *target = *out + f->n_out;
  for (int i = 0; i < n; i++) (*target)[i] = (*out)[((const struct item_attr *)item[i]->attr)->k];
  return NULL;
}

static void drop_items(const struct weft_function *f, struct node **out) {
  nodes_release(f->n_out, out);
  mem_free(out);
}

/* Which inputs the body does not reach. */
static bool note_unread(const struct weft_function *f, struct node *const leaf[], int n, struct node *const target[],
                        struct call_plan *e) {
  struct node_list l;
  graph_lock();
  bool ok = walk(&l, n, target, eval_stops);
  e->input = ok ? mem_alloc(sizeof *e->input * (size_t)(e->n_leaves + f->n_in + 1)) : NULL;
  for (int k = 0; e->input && k < f->n_in; k++) {
    bool is_read = leaf[k]->slot >= 0 && leaf[k]->slot < l.n && l.node[leaf[k]->slot] == leaf[k];
    if (!is_read) e->input[e->n_leaves + e->n_unread++] = k;
  }
  if (ok) node_list_free(&l);
  graph_unlock();
  return e->input;
}

static struct failure *plan_call(struct weft_function *f, struct node *const leaf[],
                                 int n, struct node *const item[], struct call_plan *e) {
  struct node **out, **target;
  struct failure *failure = settle(f, n, item);
  if (!failure) failure = expand_items(f, leaf, n, item, &out, &target);
  if (failure) return failure;
  if (eval_is_clear(n, target)) e->plan = eval_plan_leaves(n, target, f->rewrites, &e->n_leaves, &e->captured, &failure);
  if (!failure && !note_unread(f, leaf, n, target, e)) failure = no_memory();
  drop_items(f, out);
  if (failure || !e->plan) return failure; /* NULL: part by part */
  e->is_constant = mem_alloc((size_t)(e->n_leaves + e->n_unread + 1));
  if (!e->is_constant) return no_memory();
  for (int i = 0; i < e->n_leaves; i++) {
    e->input[i] = -1;
    for (int k = 0; k < f->n_in; k++) if (e->captured[i] == leaf[k]) e->input[i] = k;
    if ((e->is_constant[i] = e->input[i] < 0)) continue;
    node_release(e->captured[i]); /* an input: another one the next time */
    e->captured[i] = NULL;
  }
  return NULL;
}

static struct call_plan *find(struct plan_set *s, int n_in, struct node *const in[], int n, struct node *const item[]) {
  struct call_plan *e = atomic_load_explicit(&s->entry, memory_order_acquire);
  int64_t first = first_word(item[0]);
  while (e && (e->n_items != n || !is_for(e->word, false, first, n_in, in, n, item))) e = e->next;
  return e;
}

static struct failure *plan_entry(struct weft_function *f, struct node *const in[], int n, struct node *const item[],
                                  struct call_plan **out) {
  struct call_plan *e = mem_alloc(sizeof *e);
  struct node **alias = mem_alloc(sizeof *alias * (size_t)(f->n_in + 1));
  bool ok = e && alias && (e->word = mem_alloc(sizeof *e->word * (size_t)n_words(f->n_in, in, n)));
  for (int i = 0; ok && i < f->n_in; i++) ok = (alias[i] = alias_of(in[i])) != NULL;
  if (ok) e->n_items = n, is_for(e->word, true, first_word(item[0]), f->n_in, in, n, item);
  struct failure *failure = ok ? plan_call(f, alias, n, item, e) : no_memory();
  if (alias) nodes_release(f->n_in, alias);
  mem_free(alias);
  if (failure && e) entry_free(e);
  *out = failure ? NULL : e;
  return failure;
}

/* Entries are never taken out while the function lives, so that they can be used without the lock. False: no room. */
static bool keep(struct plan_set *s, struct call_plan *e) {
  pthread_mutex_lock(&call_mutex);
  bool has_room = s->n < MOST;
  if (has_room) {
    e->next = atomic_load_explicit(&s->entry, memory_order_relaxed), s->n++;
    atomic_store_explicit(&s->entry, e, memory_order_release);
  }
  pthread_mutex_unlock(&call_mutex);
  return has_room;
}

/* ---- running ---- */

static struct node *leaf_from(const struct call_plan *e, int i, struct node *const in[]) {
  return e->input[i] >= 0 ? in[e->input[i]] : e->captured[i];
}

/* Arguments and what the function has captured live as long as the call; a number is memory of its own for the while. */
static struct failure *run_entry(struct call_plan *e, int n, struct node *item[], struct node *const in[],
                                 const struct heirs *heirs) {
  int n_leaves = e->n_leaves + e->n_unread, made = 0;
  struct node *few[32], **leaf = n_leaves <= 32 ? few : mem_alloc(sizeof *leaf * (size_t)n_leaves);
  bool ok = leaf != NULL;
  for (; ok && made < n_leaves; made += ok) {
    struct node *from = leaf_from(e, made, in);
    ok = (leaf[made] = from->op == &op_scalar ? number_leaf(from) : from) != NULL;
  }
  const bool *is_constant = atomic_load_explicit(&e->has_run, memory_order_relaxed) ? e->is_constant : NULL;
  struct failure *f = ok ? eval_claimed(n, item, e->plan, n_leaves, leaf, is_constant, heirs) : no_memory();
  if (!is_constant) atomic_store_explicit(&e->has_run, true, memory_order_relaxed);
  for (int i = 0; i < made; i++) if (leaf[i] != leaf_from(e, i, in)) node_release(leaf[i]);
  if (leaf != few) mem_free(leaf);
  return f;
}

static struct failure *no_size(const struct node *item) {
  return fail(WEFT_ERR_UNSUPPORTED, item->origin, "weft_call: a result of a function whose size depends on values");
}

struct failure *eval_hand_over(int n, struct node *item[], struct node *const result[]) {
  struct failure *failure = NULL;
  struct node **leaf = NULL;
  int n_leaves = 0;
  struct plan *plan = eval_plan_leaves(n, result, RULE_EXACT, &n_leaves, &leaf, &failure);
  if (!plan) return failure;
  failure = eval_claimed(n, item, plan, n_leaves, leaf, NULL, NULL);
  if (leaf) nodes_release(n_leaves, leaf);
  mem_free(leaf);
  plan_release(plan);
  return failure;
}

static struct failure *run_anew(struct weft_function *f, int n, struct node *item[], struct node *const in[]) {
  struct node **out, **result;
  struct failure *failure = expand_items(f, in, n, item, &out, &result);
  if (failure) return failure;
  if (!eval_nodes(n, result, &(struct eval_options){ .only_targets = true }, &failure)) failure = eval_hand_over(n, item, result);
  drop_items(f, out);
  return failure;
}

/* The same, written down where it is short: on arguments with an identity of their own, as one may be given twice. */
static struct failure *run_written(struct call_plan *e, struct weft_function *f, int n, struct node *item[],
                                   struct node *const in[]) {
  struct node *few[16], **alias = f->n_in <= 16 ? few : mem_alloc(sizeof *alias * (size_t)f->n_in);
  int made = 0;
  while (alias && made < f->n_in && (alias[made] = alias_of(in[made]))) made++;
  bool is_ready = alias && made == f->n_in;
  struct recorder *r = is_ready ? tape_begin(f->n_in, alias, n, item) : NULL;
  int64_t begin = clock_ns();
  struct failure *failure = run_anew(f, n, item, is_ready ? alias : in);
  bool is_short = clock_ns() - begin < atomic_load_explicit(&short_ns, memory_order_relaxed);
  if (r) tape_end(r, &e->tape, &call_mutex, !failure && is_short);
  if (alias) nodes_release(made, alias);
  if (alias != few) mem_free(alias);
  return failure;
}

static struct failure *run_parts(struct call_plan *e, struct weft_function *f, int n, struct node *item[],
                                 struct node *const in[]) {
  for (int i = 0; i < n; i++) if (!node_is_known(item[i])) return no_size(item[i]);
  struct failure *unread = NULL;
  for (int i = 0; i < e->n_unread && !unread; i++) unread = node_verdict(in[e->input[i]]);
  if (unread) return unread;
  struct tape *tape = atomic_load_explicit(&e->tape, memory_order_acquire);
  bool has_numbers = false;
  for (int i = 0; i < f->n_in; i++) has_numbers |= in[i]->op == &op_scalar;
  if (eval_settings()->check || has_numbers || (tape && tape_is_useless(tape))) return run_anew(f, n, item, in);
  if (tape && tape_play(tape, n, item, in)) return NULL;
  return tape_is_full(tape) ? run_anew(f, n, item, in) : run_written(e, f, n, item, in);
}

static struct failure *run_call(struct call_plan *e, struct weft_function *f,
                                int n, struct node *item[], struct node *const in[], const struct heirs *heirs) {
  return e->plan ? run_entry(e, n, item, in, heirs) : run_parts(e, f, n, item, in);
}

static bool are_there(int n, struct node *const node[]) {
  for (int i = 0; i < n; i++) if (atomic_load_explicit(&node[i]->state, memory_order_acquire) != NODE_READY) return false;
  return true;
}

static struct failure *run_items(struct node *call, int n, struct node *item[], struct eval_settings *settings,
                                 const struct heirs *heirs) {
  struct weft_function *f = ((const struct call_attr *)call->attr)->function;
  struct failure *failure = NULL;
  const struct eval_options only_them = { .only_targets = true };
  tape_spoil(); /* of a call around this one */
  if (!are_there(call->n_in, call->in) && eval_nodes(call->n_in, call->in, &only_them, &failure)) return failure;
  struct plan_set *s = set_of(f);
  if (!s) return no_memory();
  settings->place = item[0]->place;
  struct call_plan *e = find(s, f->n_in, call->in, n, item);
  if (e) return run_call(e, f, n, item, call->in, heirs);
  failure = plan_entry(f, call->in, n, item, &e);
  if (failure) return failure;
  bool is_kept = keep(s, e);
  failure = run_call(e, f, n, item, call->in, heirs);
  if (!is_kept) entry_free(e);
  return failure;
}

/* On a device a job does not wait for what is checked, and there is one verdict for all results of a plan. Arguments are there. */
static bool is_left_open(struct node *call, const struct results *r) {
  struct weft_function *f = ((const struct call_attr *)call->attr)->function;
  struct plan_set *s = set_of(f);
  struct call_plan *e = s ? find(s, f->n_in, call->in, r->n, r->item) : NULL;
  if (s && !e) failure_release(plan_entry(f, call->in, r->n, r->item, &e));
  bool is_made = e && s && !find(s, f->n_in, call->in, r->n, r->item), is_open = !e || !e->plan;
  for (int i = 0; !is_open && i < e->plan->schedule->n_steps; i++) is_open = plan_checks(e->plan, i);
  if (is_made && !keep(s, e)) entry_free(e);
  return is_open;
}

/* What is wanted does not fail because something beside it does; but what was given up is not tried again. */
static __attribute__((noinline)) struct failure *run_with_held(struct node *call, const struct results *r,
                                                               struct eval_settings *s, const struct heirs *heirs) {
  bool is_job = job_is_here() && device_for(r->item[0], s);
  bool is_for_fewer = is_job && (!are_there(call->n_in, call->in) || is_left_open(call, r));
  struct failure *f = is_for_fewer ? NULL : run_items(call, r->n, r->item, s, heirs);
  bool is_over = f ? failure_status(f) == WEFT_ERR_CANCELLED || job_is_put_off() : !is_for_fewer;
  if (is_over) return f;
  failure_release(f);
  return run_items(call, r->n_wanted, r->item, s, heirs);
}

/* Once an item has its value, another thread may make it forget the call: whoever found it holds it, since the lock. */
struct failure *eval_call(struct node *call, const struct results *r, int n_heirs, struct heir heir[]) {
  struct eval_settings *s = eval_settings();
  int before = s->place;
  struct heirs all = { n_heirs, heir, call, r->forgets }, *heirs = n_heirs || r->some_forget ? &all : NULL;
  bool has_held = r->n > r->n_wanted;
  struct failure *f = has_held ? run_with_held(call, r, s, heirs) : run_items(call, r->n, r->item, s, heirs);
  s->place = before;
  if (has_held && !f) results_forget(r);
  return f;
}

/* The same of a call that has one result. */
static inline struct failure *run_single(struct node *call, struct node *item[], int n_heirs, struct heir heir[]) {
  struct eval_settings *s = eval_settings();
  int before = s->place;
  bool forgets = !n_heirs && node_is_loose(item[0]) && !s->check;
  struct heirs all = { n_heirs, heir, call, &forgets };
  struct failure *f = run_items(call, 1, item, s, n_heirs || forgets ? &all : NULL);
  s->place = before;
  return f;
}

/* Whether the targets are results of one call and nothing else is in the way. */
static bool is_ready_call(int n, struct node *const target[]) {
  const struct node *call = n && target[0]->op->kind == OP_ITEM && target[0]->n_in ? target[0]->in[0] : NULL;
  if (!call || call->op->kind != OP_CALL) return false;
  for (int i = 0; i < n; i++)
    if (target[i]->op->kind != OP_ITEM || !target[i]->n_in || target[i]->in[0] != call || !node_is_known(target[i]) ||
        atomic_load(&target[i]->state) != NODE_LAZY)
      return false;
  for (int i = 0; i < call->n_in; i++)
    if (call->in[i]->op != &op_scalar && atomic_load(&call->in[i]->state) != NODE_READY) return false;
  return true;
}

/* Lock held. false: out of memory. */
static bool take_results(struct results *r, const struct node *call, int n, struct node *target[], bool forgets,
                         bool has_names) {
  if (!results_begin(r, call, n)) return false;
  for (int i = 0; i < n; i++) results_want(r, target[i], forgets && node_is_loose(target[i]));
  results_add_held(r, call, has_names);
  return true;
}

static __attribute__((noinline)) struct failure *run_several(struct node *call, int n, struct node *target[], int n_heirs,
                                                             struct heir heir[]) {
  struct results r;
  bool has_names = n_heirs ? scope_has_names() : eval_has_names(n, target);
  graph_lock();
  bool ok = take_results(&r, call, n, target, !n_heirs && !eval_settings()->check, has_names);
  graph_unlock();
  if (!ok) return no_memory();
  struct failure *f = eval_call(call, &r, n_heirs, heir);
  results_end(&r);
  return f;
}

struct failure *eval_ready_call(int n, struct node *target[], int n_heirs, struct heir heir[]) {
  if (!n || target[0]->op->kind != OP_ITEM) return NULL; /* as one can see without the lock */
  if (atomic_load(&target[0]->state) != NODE_LAZY) return NULL;
  graph_lock();
  struct node *call = is_ready_call(n, target) ? node_retain(target[0]->in[0]) : NULL;
  graph_unlock();
  if (!call) return NULL;
  bool is_single = n == 1 && ((const struct call_attr *)call->attr)->n_out == 1;
  struct failure *f = is_single ? run_single(call, target, n_heirs, heir) : run_several(call, n, target, n_heirs, heir);
  node_release(call);
  return f;
}

/* ---- without a job ---- */

/* Numbers are brought along. */
static bool is_trusted(const struct node *n) { return n->op == &op_scalar || !n->value->verdict; }
static bool is_there(const struct node *n, const struct device *d) {
  return n->op == &op_scalar || buffer_is_there(n->value->buf, d);
}

static bool only_enqueues(const struct call_plan *e, struct node *const in[]) {
  if (!e || !e->plan || !e->plan->only_enqueues) return false;
  if (eval_settings()->cancel && device_may_stop(e->plan)) return false; /* somebody has to wait, to stop it */
  for (int i = 0; i < e->n_leaves + e->n_unread; i++) {
    const struct node *n = leaf_from(e, i, in);
    if (!is_trusted(n) || (i < e->n_leaves && !is_there(n, e->plan->device))) return false;
  }
  return true;
}

bool eval_enqueue_call(int n, struct node *target[]) {
  struct eval_settings *s = eval_settings();
  if (!n || !device_for(target[0], s) || s->check || job_is_here()) return false;
  struct results r;
  graph_lock();
  struct node *call = is_ready_call(n, target) ? node_retain(target[0]->in[0]) : NULL;
  bool ok = call && take_results(&r, call, n, target, false, eval_has_names(n, target));
  graph_unlock();
  if (!ok) return node_release(call), false;
  struct weft_function *f = ((const struct call_attr *)call->attr)->function;
  struct plan_set *plans = atomic_load(&f->plans);
  int place = s->place;
  s->place = target[0]->place;
  bool is_short = plans && only_enqueues(find(plans, f->n_in, call->in, r.n, r.item), call->in);
  s->place = place;
  struct failure *why = is_short ? eval_call(call, &r, 0, NULL) : NULL;
  bool is_done = is_short && !why;
  failure_release(why); /* a job will find it again, and tell */
  results_end(&r);
  node_release(call);
  return is_done;
}
