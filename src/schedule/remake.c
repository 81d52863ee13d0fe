/* remake.c -- values that the kernel which reads them makes again, on a device.
 *
 * To store a value and read it again moves its bytes twice. Where it is made element by element of what stands in memory anyway,
 * and that is no more to read, a kernel that needs it makes it itself: what a gradient keeps of an activation is made of its input,
 * and what is summed along columns is made of the rows and their few numbers. No bit changes. Nodes have been grouped once, so that
 * it is known who reads what; the copies that are made here float into the kernels of their users when nodes are grouped again. */
#include "schedule/work.h"

enum {
  FEW = 32,        /* so many times smaller than what is made of it: written and read for nothing */
  MOST_MADE = 24,  /* copies for one kernel, .. */
  MOST_DEAR = 3    /* .. and those of them that are functions, not single instructions */
};

struct replaced { struct node *user; int k; struct node *by; struct replaced *next; }; /* operand k of the user */

struct remaking {
  struct work *w;
  struct replaced *replaced; /* in the end: until then every node is made of what it was made of */
  int group;           /* the reader */
  struct node **copy;  /* by slot: for this reader, or NULL */
  bool *is_read;       /* by slot: it reads it, or will */
  bool *is_wanted;     /* by slot: somebody reads it whole, so that it is stored whoever makes it again */
  int *seen, n_looks;  /* by slot: the last look that came by */
  int n_made, n_dear;
  bool is_starved;     /* the reader folds by few threads: functions are others' */
};

static int64_t bytes_of(const struct node *x) { return node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype); }

/* What floats is its one user's, and stands nowhere: another user has another one. */
static bool floats(const struct node *x) { return local_of(x)->is_floating; }

/* Stands in memory whatever happens here, or is so small beside n that it may. */
static bool is_there(const struct remaking *r, const struct node *x, const struct node *n) {
  if (floats(x)) return false;
  const struct item *i = &r->w->item[x->slot];
  if (x->op->kind == OP_LEAF || i->is_target || i->group < 0 || r->is_wanted[x->slot]) return true;
  return (x->op->kind != OP_ELEMENT && i->is_stored) || node_count(x) * FEW <= node_count(n);
}

static bool is_element(const struct node *x) { return x->op->kind == OP_ELEMENT && !local_of(x)->is_alone; }

struct remake_cost { int n, dear; int64_t bytes; bool can; }; /* copies, and bytes to read for them that are not read yet */

/* What it takes to make x, of which there is a copy, or which stands in memory, or else it is made of such. */
static void look(struct remaking *r, const struct node *x, const struct node *n, struct remake_cost *m) {
  if (r->copy[x->slot] || !m->can || r->seen[x->slot] == r->n_looks) return;
  r->seen[x->slot] = r->n_looks;
  if (x != n && is_there(r, x, n)) {
    if (!r->is_read[x->slot]) m->bytes += bytes_of(x);
    return;
  }
  m->can = is_element(x) && (floats(x) || node_count(x) == node_count(n)) && ++m->n <= MOST_MADE;
  m->dear += !x->op->is_cheap;
  for (int k = 0; k < x->n_in && m->can; k++) {
    struct edge e = edge_of(x->in[k]);
    if (scalar_of(x->in[k])) continue;
    if (!e.aligned && !floats(e.base) && !is_there(r, e.base, n)) m->can = false;
    look(r, e.base, n, m);
  }
}

static struct node *copy_node(struct remaking *r, const struct node *x) {
  struct node *c = work_node(r->w, x->op, (weft_dtype)x->dtype, x->rank, x->dims, x->n_in, x->in, x->attr, x->attr_bytes);
  if (c) c->origin = x->origin;
  return c;
}

static struct node *made(struct remaking *, struct node *x, const struct node *n);

/* x, which shows what is made, on top of the copy. */
static struct node *shown(struct remaking *r, struct node *x, const struct node *n) {
  if (x->op->kind != OP_VIEW) return made(r, x, n);
  struct node *below = shown(r, x->in[0], n), *c = below ? copy_node(r, x) : NULL;
  if (c) c->in[0] = below;
  return c;
}

/* The copy of x for this reader. */
static struct node *made(struct remaking *r, struct node *x, const struct node *n) {
  int slot = x->slot;
  if (r->copy[slot]) return r->copy[slot];
  if (x != n && is_there(r, x, n)) return r->is_read[slot] = true, x;
  struct node *c = copy_node(r, x);
  for (int k = 0; c && k < c->n_in; k++) {
    if (scalar_of(x->in[k])) continue;
    if (!(c->in[k] = shown(r, x->in[k], n))) return NULL;
  }
  if (c) local_of(c)->is_floating = true, r->n_made++, r->n_dear += !x->op->is_cheap;
  return floats(x) ? c : (r->copy[slot] = c);
}

/* Whether an operand that another group made is computed again here, because that costs less than its bytes. */
static bool is_remade(struct remaking *r, const struct node *user, const struct edge *e) {
  const struct node *x = e->base;
  const struct item *i = &r->w->item[x->slot];
  if (!e->aligned || i->group < 0 || i->group == r->group || i->is_target || r->is_wanted[x->slot] || !is_element(x)) return false;
  if (r->copy[x->slot]) return true;
  if (node_count(x) != node_count(user->op->kind == OP_REDUCE ? user->in[0] : user)) return false;
  struct remake_cost m = { .can = true };
  r->n_looks++;
  look(r, x, x, &m);
  if (r->is_starved && m.dear) return false;
  return m.can && m.bytes <= bytes_of(x) + bytes_of(x) / FEW && r->n_made + m.n <= MOST_MADE && r->n_dear + m.dear <= MOST_DEAR;
}

static bool remake_for(struct remaking *r, struct node *user) {
  if (user->op->kind != OP_ELEMENT && user->op->kind != OP_REDUCE) return true;
  for (int k = 0; k < user->n_in; k++) {
    struct edge e = edge_of(user->in[k]);
    if (scalar_of(user->in[k]) || needs_memory(user, k) || !is_remade(r, user, &e)) continue;
    struct replaced *x = work_take(r->w, sizeof *x);
    struct node *by = x ? shown(r, user->in[k], e.base) : NULL;
    if (!by) return false;
    *x = (struct replaced){ user, k, by, r->replaced };
    r->replaced = x;
  }
  return true;
}

static bool remake_group(struct remaking *r, int group) {
  const struct group *g = &r->w->group[group];
  int n = r->w->list->n;
  r->group = group, r->n_made = r->n_dear = 0, r->is_starved = false;
  for (int i = 0; i < g->n_items; i++) r->is_starved |= fold_is_starved(r->w->list->node[g->item[i]], false);
  for (int i = 0; i < n; i++) r->copy[i] = NULL, r->is_read[i] = false;
  for (int i = 0; i < g->n_bases; i++) r->is_read[g->base[i]] = true;
  for (int i = 0; i < g->n_items; i++) if (!remake_for(r, r->w->list->node[g->item[i]])) return false;
  return true;
}

/* What is read whole, by steps of their own and by products. */
static void find_wanted(struct remaking *r) {
  for (int i = 0; i < r->w->list->n; i++) {
    const struct node *x = r->w->list->node[i];
    bool is_whole = x->op->kind != OP_VIEW && r->w->item[i].group < 0;
    for (int k = 0; k < x->n_in; k++) if (is_whole || needs_memory(x, k)) r->is_wanted[edge_of(x->in[k]).base->slot] = true;
  }
}

bool values_remake(struct work *w, bool *any) {
  size_t n = (size_t)w->list->n + 1;
  struct remaking r = { .w = w, .copy = work_take(w, n * sizeof *r.copy), .is_read = work_take(w, n),
                        .is_wanted = work_take(w, n), .seen = work_take(w, n * sizeof *r.seen) };
  if (!r.copy || !r.is_read || !r.is_wanted || !r.seen) return false;
  for (size_t i = 0; i < n; i++) r.is_wanted[i] = false, r.seen[i] = 0;
  find_wanted(&r);
  for (int g = 0; g < w->n_groups; g++)
    if (!w->group[g].is_dead && !w->group[g].is_alone && !w->group[g].is_apart && !remake_group(&r, g)) return false;
  for (const struct replaced *x = r.replaced; x; x = x->next) x->user->in[x->k] = x->by;
  *any = r.replaced != NULL;
  return true;
}
