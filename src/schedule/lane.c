/* lane.c -- the body of a loop as one of its lanes sees it.
 *
 * If the first axis of every array of that length only says which of many equal computations an element belongs to, as in a
 * map, these can go side by side, each in a lane. What a lane sees are the same nodes, but that axis has length 1. A loop
 * that ends when all of its lanes have stopped, which keep their carries until then, ends lane by lane. */
#include <string.h>
#include "schedule/body.h"

static bool is_laned(const struct node *n, int64_t lanes) { return n->rank && n->dims[0] == lanes; }

/* ---- whether lanes stay apart ---- */

static bool view_keeps(const struct node *v, int64_t lanes) {
  const struct node *x = v->in[0];
  bool is = is_laned(v, lanes), was = is_laned(x, lanes);
  if (v->op == &op_broadcast) return !was || (is && v->rank == x->rank);
  if (is != was || v->op == &op_part) return false;
  if (v->op == &op_transpose) return !is || ((const struct transpose_attr *)v->attr)->axes[0] == 0;
  if (v->op == &op_slice) return !is || ((const struct slice_attr *)v->attr)->axis != 0;
  if (v->op == &op_windows) return !is || ((const struct windows_attr *)v->attr)->axis != 0;
  return !is || v->op == &op_reshape;
}

/* [b,m,k] x [b,k,n], or rows by one matrix */
static bool product_keeps(const struct node *n, int64_t lanes) {
  bool is = is_laned(n, lanes), a = is_laned(n->in[0], lanes), b = is_laned(n->in[1], lanes);
  return n->rank > 2 ? is == a && is == b : is == a && !b;
}

static bool concat_keeps(const struct node *n, int64_t lanes) {
  bool is = is_laned(n, lanes);
  for (int k = 0; k < n->n_in; k++) if (is_laned(n->in[k], lanes) != is) return false;
  return !is || ((const struct axis_attr *)n->attr)->axis != 0;
}

static bool put_keeps(const struct node *n, int64_t lanes) {
  const struct put_attr *a = n->attr;
  bool is = is_laned(n, lanes);
  return is_laned(n->in[1], lanes) == is && (!is || (a->start[0] == 0 && a->step[0] == 1));
}

/* The axes in front of a problem's own are the same for all operands. */
static bool library_keeps(const struct node *n, int64_t lanes) {
  if (!n->op->library || !n->op->library->values) return false;
  bool is = is_laned(n->in[0], lanes);
  for (int k = 0; k < n->n_in; k++) if (is_laned(n->in[k], lanes) != is) return false;
  return !is || n->in[0]->rank > n->op->library->core;
}

bool lane_keeps(const struct node *n, int64_t lanes) {
  switch (n->op->kind) {
    case OP_LEAF: case OP_SIZE: case OP_ELEMENT: case OP_LOOP: case OP_ITEM: return true;
    case OP_IOTA: return !is_laned(n, lanes) || ((const struct axis_attr *)n->attr)->axis != 0;
    case OP_REDUCE: case OP_PREFIX: return !is_laned(n->in[0], lanes) || ((const struct axis_attr *)n->attr)->axis != 0;
    case OP_VIEW: return view_keeps(n, lanes);
    case OP_CONTRACT: return product_keeps(n, lanes);
    case OP_CONCAT: return concat_keeps(n, lanes);
    case OP_PAD:
      return is_laned(n->in[0], lanes) == is_laned(n, lanes) &&
             (!is_laned(n, lanes) || ((const struct pad_attr *)n->attr)->axis != 0);
    case OP_PUT: return put_keeps(n, lanes);
    case OP_LIBRARY: return library_keeps(n, lanes);
    case OP_TAKE: case OP_SCATTER: case OP_PAIR: case OP_IDENTITY: case OP_CALL: case OP_LATER: break;
  }
  return false;
}

/* ---- loops that end when all lanes have stopped ---- */

/* What a value is in a lane that has stopped. */
struct fate { enum { ANYTHING, YES, CARRY } is; int carry; };

static struct fate fate_of(const struct body *b, const struct fate fate[], int stopped, const struct node *n) {
  if (body_is_carry(b, n)) {
    int k = local_of(n)->leaf - b->loop->n_seq;
    return (struct fate){ k == stopped ? YES : CARRY, k };
  }
  if (n->op->kind == OP_VIEW && fate[n->in[0]->slot].is == YES) return (struct fate){ YES, 0 };
  if (n->op == &op_or && (fate[n->in[0]->slot].is == YES || fate[n->in[1]->slot].is == YES)) return (struct fate){ YES, 0 };
  if (n->op == &op_where && fate[n->in[0]->slot].is == YES) return fate[n->in[1]->slot];
  return (struct fate){ ANYTHING, 0 };
}

/* Whether carry `stopped` says for ever that a lane has stopped, and all others stay as they are then. */
static bool stays_stopped(struct body *b, int stopped) {
  struct fate *fate = work_take(b->w, sizeof *fate * (size_t)(b->list.n + 1));
  for (int i = 0; fate && i < b->list.n; i++) fate[i] = fate_of(b, fate, stopped, b->list.node[i]);
  for (int k = 0; fate && k < b->loop->n_carry; k++) {
    struct fate f = fate[b->target[k]->slot];
    if (k == stopped ? f.is != YES : f.is != CARRY || f.carry != k) return false;
  }
  return fate;
}

/* What tells a lane that it has stopped, if the loop ends when all have: the next value of a carry. NULL: it does not. */
static struct node *stop_of_lanes(struct body *b, int64_t lanes) {
  struct node *x = b->loop->until ? b->target[b->n_targets - 1] : NULL;
  while (x && (x->op->kind == OP_VIEW || (x->op->kind == OP_REDUCE && !x->op->fold->n && x->op->fold->op == KIR_AND))) x = x->in[0];
  if (!x || !is_laned(x, lanes) || node_count(x) != lanes) return NULL;
  for (int k = 0; k < b->loop->n_carry; k++) if (b->target[k] == x && stays_stopped(b, k)) return x;
  return NULL;
}

/* ---- the lane ---- */

static bool is_wanted(const struct body *b, int target) {
  int k = target - b->loop->n_carry;
  return k < 0 || k >= b->loop->n_all || (b->all && b->all[k]);
}

static struct node *seen(struct body *b, const struct node *n, int64_t lanes, struct node *const made[]) {
  dim dims[WEFT_RANK_MAX];
  int n_in = n->op->kind == OP_SIZE ? 0 : n->n_in;
  struct node **in = work_take(b->w, sizeof *in * (size_t)(n_in + 1));
  if (!in) return NULL;
  for (int k = 0; k < n_in; k++) in[k] = made[n->in[k]->slot];
  if (n->rank) memcpy(dims, n->dims, sizeof *dims * n->rank);
  if (is_laned(n, lanes)) dims[0] = 1;
  struct node *x = node_local(b->w->arena, n->op, (weft_dtype)n->dtype, n->rank, dims, n_in, in, n->attr, n->attr_bytes);
  if (!x) return b->w->no_memory = true, NULL;
  x->origin = n->origin;
  local_of(x)->leaf = local_of(n)->leaf;
  return x;
}

/* Marks what the targets need. */
static bool *find_needed(struct body *b) {
  bool *is_needed = work_take(b->w, (size_t)b->list.n + 1);
  for (int k = 0; is_needed && k < b->n_targets; k++) if (is_wanted(b, k)) is_needed[b->target[k]->slot] = true;
  for (int i = b->list.n - 1; is_needed && i >= 0; i--)
    for (int k = 0; is_needed[i] && b->list.node[i]->op->kind != OP_SIZE && k < b->list.node[i]->n_in; k++)
      is_needed[b->list.node[i]->in[k]->slot] = true;
  return is_needed;
}

bool body_lane(struct body *b, int64_t lanes, bool *fits) {
  struct node_list from = b->list;
  struct node *stop = stop_of_lanes(b, lanes);
  if (stop) b->target[b->n_targets - 1] = stop;
  bool *is_needed = find_needed(b);
  struct node **made = work_take(b->w, sizeof *made * (size_t)(from.n + 1));
  struct node **list = work_take(b->w, sizeof *list * (size_t)(from.n + 1));
  if (!is_needed || !made || !list) return false;
  b->list = (struct node_list){ .node = list, .room = from.n };
  *fits = true;
  for (int i = 0; *fits && i < from.n; i++) {
    if (!is_needed[i] || !(*fits = lane_keeps(from.node[i], lanes))) continue;
    if (!(made[i] = seen(b, from.node[i], lanes, made))) return false;
    made[i]->slot = b->list.n;
    b->list.node[b->list.n++] = made[i];
  }
  for (int k = 0; *fits && k < b->n_targets; k++) b->target[k] = is_wanted(b, k) ? made[b->target[k]->slot] : NULL;
  return true;
}
