/* item.c -- one result of an op that has several; and the results of a call that live, so that whoever computes one finds the
 * others. */
#include "base/mem.h"
#include "op/loop.h"

struct node *item_make(struct node *many, int k) {
  dim dims[WEFT_RANK_MAX];
  int rank;
  weft_dtype dtype = many->op->many->type(many, k, &rank, dims);
  struct node *n = node_make(&op_item, dtype, rank, dims, 1, &many, &(struct item_attr){ k }, sizeof(struct item_attr));
  if (n && many->op == &op_loop && loop_has_told(loop_of(many))) node_set_told(n, true);
  return n;
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **failure) {
  (void)failure;
  return item_make(in[0], ((const struct item_attr *)n->attr)->k);
}

const struct op op_item = { .name = "item", .kind = OP_ITEM, .again = again };

/* ---- Those of a call that live ----
 * They are no references: a result takes itself out when it ends or forgets the call. Whoever looks at one puts `looked_at` in its
 * place meanwhile, so that its end waits. */

struct items { _Atomic(struct node *) at[1]; }; /* as many as the call has results */

static struct node looked_at;

/* NULL: out of memory, and nobody finds them. */
static struct items *items_of(const struct node *call) {
  struct call_attr *a = call->attr;
  struct items *items = atomic_load(&a->items), *none = NULL;
  if (items) return items;
  items = mem_alloc(sizeof *items + sizeof(struct node *) * (size_t)(a->n_out - 1));
  if (!items || atomic_compare_exchange_strong(&a->items, &none, items)) return items;
  mem_free(items);
  return none;
}

static _Atomic(struct node *) *place_in(struct items *items, const struct node *item) {
  return &items->at[((const struct item_attr *)item->attr)->k];
}

/* What stands there, once nobody looks at it. */
static struct node *settled(_Atomic(struct node *) *at) {
  struct node *now;
  while ((now = atomic_load_explicit(at, memory_order_acquire)) == &looked_at) continue;
  return now;
}

void item_join(struct node *item) {
  struct items *items = items_of(item->in[0]);
  _Atomic(struct node *) *at = items ? place_in(items, item) : NULL;
  struct node *now = at ? settled(at) : NULL;
  while (at && !atomic_compare_exchange_weak(at, &now, item)) now = settled(at);
}

void item_leave(struct node *item) {
  struct items *items = atomic_load(&((struct call_attr *)item->in[0]->attr)->items);
  _Atomic(struct node *) *at = items ? place_in(items, item) : NULL;
  struct node *now = at ? settled(at) : NULL;
  while (at && now == item && !atomic_compare_exchange_weak(at, &now, NULL)) now = settled(at);
}

struct node *item_living(const struct node *call, int k, bool (*is_wanted)(struct node *, const void *), const void *ctx) {
  struct items *items = atomic_load(&((struct call_attr *)call->attr)->items);
  struct node *n = items ? atomic_load_explicit(&items->at[k], memory_order_acquire) : NULL;
  while (n && !atomic_compare_exchange_weak(&items->at[k], &n, &looked_at)) continue;
  if (!n) return NULL;
  int refs = is_wanted(n, ctx) ? atomic_load_explicit(&n->refs, memory_order_relaxed) : 0;
  while (refs && !atomic_compare_exchange_weak(&n->refs, &refs, refs + 1)) continue;
  atomic_store_explicit(&items->at[k], n, memory_order_release);
  return refs ? n : NULL;
}
