/* key.c -- keys of plans, by the structure of a graph: see key.h. */
#include "run/key.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "op/op.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t keys; /* of a thread: the first of the keys it has used */
static bool has_keys;

static void leave(void *first) {
  for (struct key *k = first, *next; k; k = next) {
    next = k->next;
    mem_free(k->bytes);
    *k = (struct key){ 0 };
  }
}
static void watch_threads(void) { has_keys = pthread_key_create(&keys, leave) == 0; }

static void list(struct key *k) {
  pthread_once(&once, watch_threads);
  if (!has_keys) return;
  k->next = pthread_getspecific(keys);
  if (!pthread_setspecific(keys, k)) k->is_listed = true;
}

void key_clear(struct key *k) {
  k->n = 0, k->failed = false;
  if (!k->is_listed) list(k);
}

void key_add(struct key *k, const void *p, size_t n) {
  if (k->failed) return;
  if (k->room - k->n < n) {
    size_t room = k->room ? 2 * k->room : 1024;
    while (room - k->n < n) room *= 2;
    uint8_t *more = mem_resize(k->bytes, room);
    if (!more) { k->failed = true; return; }
    k->bytes = more, k->room = room;
  }
  if (n) memcpy(k->bytes + k->n, p, n);
  k->n += n;
}

void key_int(struct key *k, int64_t v) { key_add(k, &v, sizeof v); }

static bool is_leaf(const struct node *n) { return n->op->kind == OP_LEAF || atomic_load(&n->state) == NODE_READY; }

static void head(struct key *k, const struct op *op, const struct node *n) {
  struct { const struct op *op; uint32_t shape, n_in; } h = { op, (uint32_t)(n->dtype | n->rank << 8 | n->weak << 16),
                                                              (uint32_t)n->n_in };
  key_add(k, &h, sizeof h);
  bool has_length = n->op->kind == OP_ITEM && n->rank && !dim_is_known(n->dims[0]); /* the loop says how long it may be */
  if (has_length) key_int(k, -1);
  key_add(k, n->dims + has_length, sizeof *n->dims * (size_t)(n->rank - has_length));
}

static void leaf(struct key *k, const struct node *n) {
  head(k, n->op == &op_scalar ? &op_scalar : &op_value, n);
  if (n->op == &op_scalar) key_add(k, n->attr, n->attr_bytes);
  else if (n->value) key_add(k, n->value->stride, sizeof(int64_t) * n->rank);
}

static void loop_body(struct key *, const struct loop *);

static void inner(struct key *k, const struct node *n) {
  head(k, n->op, n);
  for (int i = 0; i < (n->op->kind == OP_SIZE ? 0 : n->n_in); i++) { /* the attribute says the size */
    int slot = n->in[i]->slot;
    key_add(k, &slot, sizeof slot);
  }
  if (n->op->kind == OP_LOOP) loop_body(k, ((const struct loop_attr *)n->attr)->loop);
  else if (n->op == &op_assert) key_int(k, assert_status(n)), key_add(k, assert_text(n), strlen(assert_text(n)) + 1);
  else if (n->op != &op_custom) key_add(k, n->attr, n->attr_bytes); /* own rules, each node's for itself, are of no plan */
  if (facts_of(n)->may_be_blamed) key_add(k, &n->origin, sizeof n->origin);
}

void key_graph(struct key *k, const struct node_list *list, int n, struct node *const target[]) {
  key_int(k, n);
  for (int i = 0; i < n; i++) key_int(k, target[i]->slot);
  for (int i = 0; i < list->n; i++) {
    if (is_leaf(list->node[i])) leaf(k, list->node[i]);
    else inner(k, list->node[i]);
  }
}

/* Which variable of the loop it is: sequences first, then carries, then constants. -1: one of a loop around. */
static int variable(const struct loop *l, const struct node *v) {
  for (int j = 0; j < l->n_seq; j++) if (l->seq_var[j] == v) return j;
  for (int j = 0; j < l->n_carry; j++) if (l->carry_var[j] == v) return l->n_seq + j;
  for (int j = 0; j < l->n_const; j++) if (l->const_var[j] == v) return l->n_seq + l->n_carry + j;
  return -1;
}

/* A symbol of the loop's own says nothing that its input does not say. */
static int64_t steps_of(const struct loop *l) {
  dim n = dim_resolve(l->steps);
  return l->owns_steps && !dim_is_known(n) ? -1 : n;
}

/* A body by structure: its variables count as leaves, in the order of the walk. */
static void loop_body(struct key *k, const struct loop *l) {
  struct node_list list = { 0 };
  int n = 0, most = l->n_carry + l->n_all + 1;
  struct node **target = mem_alloc(sizeof *target * (size_t)most);
  key_int(k, l->n_seq), key_int(k, l->n_carry), key_int(k, l->n_const), key_int(k, l->n_all);
  key_int(k, l->has_steps), key_int(k, l->is_backward), key_int(k, steps_of(l)), key_int(k, !!l->until);
  if (!target) { k->failed = true; return; }
  for (int i = 0; i < l->n_carry; i++) target[n++] = l->next[i];
  for (int i = 0; i < l->n_all; i++) if (l->all[i]) target[n++] = l->all[i];
  if (l->until) target[n++] = l->until;
  /* the walk uses slots of the body's own nodes only: the graph outside never contains them */
  if (!walk(&list, n, target, NULL)) k->failed = true;
  else {
    for (int i = 0; i < list.n; i++) { /* which variable is which */
      struct node *v = list.node[i];
      if (v->op != &op_loop_var) continue;
      key_int(k, v->slot), key_int(k, variable(l, v));
    }
    key_graph(k, &list, n, target);
  }
  node_list_free(&list);
  mem_free(target);
}
