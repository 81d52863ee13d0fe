/* exec.c -- steps through a program. Loops are jumps; nothing recurses but a fold into its fn. */
#include "backend/vm/frame.h"
#include <string.h>

/* ---- Masks: bytes 0 or 1 --------------------------------------------------------------------------------------------- */

static int64_t on(const uint8_t *m, int64_t n) {
  int64_t count = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    memcpy(&word, m + i, 8);
    count += (int64_t)(word * 0x0101010101010101u >> 56); /* the sum of its bytes */
  }
  for (; i < n; i++) count += m[i];
  return count;
}

/* out = mask & a; says whether any lane is on. */
static bool narrow(struct vm_frame *f, int out, int mask, int a) {
  const uint8_t *m = vm_mask(f, mask);
  if (m) f->tiles->both(f->ptr[out], m, f->ptr[a], NULL, f->n);
  else memcpy(f->ptr[out], f->ptr[a], (size_t)f->n);
  return (f->active[out] = on((uint8_t *)f->ptr[out], f->n)) != 0;
}

static void ones(struct vm_frame *f, int out, int mask) {
  const uint8_t *m = vm_mask(f, mask);
  if (m) memcpy(f->ptr[out], m, (size_t)f->n);
  else memset(f->ptr[out], 1, (size_t)f->n);
  f->active[out] = mask < 0 ? f->n : f->active[mask];
}

/* Lanes that run here and stop leave the loop; resting lanes are not asked. */
static bool until(struct vm_frame *f, const struct vm_step *s) {
  const uint8_t *m = vm_mask(f, s->mask), *stop = (const uint8_t *)f->ptr[s->in[0]];
  uint8_t *live = (uint8_t *)f->ptr[s->in[1]], *go = (uint8_t *)f->ptr[s->out];
  for (int64_t i = 0; i < f->n; i++) {
    uint8_t runs = m ? m[i] : 1;
    go[i] = runs & (stop[i] ^ 1);
    live[i] &= (uint8_t)(go[i] | (runs ^ 1));
  }
  f->active[s->in[1]] = on(live, f->n);
  return (f->active[s->out] = on(go, f->n)) != 0;
}

/* ---- Checks ---------------------------------------------------------------------------------------------------------- */

static bool is_one(const struct vm_frame *f, int reg) { return f->c->regs[reg].kind == VM_ONE; }

static int64_t of_lane(const struct vm_frame *f, int reg, int64_t lane) {
  return ((const int64_t *)f->ptr[reg])[is_one(f, reg) ? 0 : lane];
}

/* The lane's place and value, if it is the lowest place so far. */
static void report(const struct vm_frame *f, const struct vm_step *s, int64_t lane) {
  struct finding *found = &f->launch->checks[s->access];
  uint64_t at = s->in[2] >= 0 ? (uint64_t)of_lane(f, s->in[2], lane) : (uint64_t)vm_lin_value(f, s->lin);
  if (s->lane.n) at += (uint64_t)vm_lin_value(f, s->lane) * (uint64_t)(f->at + lane);
  if ((int64_t)at < found->place) *found = (struct finding){ (int64_t)at, of_lane(f, s->in[1], lane) };
}

static bool check(struct vm_frame *f, const struct vm_step *s) {
  const uint8_t *m = vm_mask(f, s->mask), *ok = (const uint8_t *)f->ptr[s->in[0]];
  int64_t before = s->mask < 0 ? f->n : f->active[s->mask];
  bool any = narrow(f, s->out, s->mask, s->in[0]);
  if (f->active[s->out] == before) return any;
  for (int64_t i = 0; i < f->n; i++)
    if ((!m || m[i]) && !ok[i]) report(f, s, i);
  return any;
}

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

static struct vm_span range(const struct vm_frame *f, const struct vm_loop *l) {
  struct vm_span r = {0, 0, 0};
  const struct vm_loop *of = l->of >= 0 ? &f->c->loops[l->of] : l;
  int64_t n = vm_lin_value(f, of->n);
  if (l->extent == KIR_N) r.hi = n;
  if (l->extent == KIR_BLOCKS) {
    int64_t b = vm_lin_value(f, l->b);
    r.hi = b > 0 && n > 0 ? (n - 1) / b + 1 : 0;
  }
  if (l->extent == KIR_BLOCK) {
    int64_t b = vm_lin_value(f, of->b), q = vm_i64(f, of->var);
    r.lo = q * b, r.hi = b < n - r.lo ? r.lo + b : n;
  }
  if (l->is_outer && r.lo < f->launch->lo) r.lo = f->launch->lo;
  if (l->is_outer && r.hi > f->launch->hi) r.hi = f->launch->hi;
  r.at = r.lo;
  return r;
}

static void tile(struct vm_frame *f, const struct vm_loop *l, const struct vm_span *s) {
  f->at = s->at, f->n = s->hi - s->at < f->lanes ? s->hi - s->at : f->lanes;
  for (int i = l->first_row; i < l->first_row + l->n_rows; i++) {
    int r = f->c->list[i];
    f->ptr[r] = f->home[r] + (s->at - s->lo) * f->c->regs[r].width;
  }
}

/* False: nothing to do. */
static bool begin(struct vm_frame *f, const struct vm_step *s) {
  const struct vm_loop *l = &f->c->loops[s->access];
  struct vm_span *span = &f->span[s->access];
  *span = range(f, l);
  if (span->lo >= span->hi) return false;
  if (s->code == VM_LANE) f->zero = span->lo, tile(f, l, span);
  else *(int64_t *)f->ptr[l->var] = span->at;
  return true;
}

/* True: once more. */
static bool again(struct vm_frame *f, const struct vm_step *s) {
  const struct vm_loop *l = &f->c->loops[s->access];
  struct vm_span *span = &f->span[s->access];
  span->at += l->kind == KIR_LANE ? f->n : 1;
  if (span->at >= span->hi || (l->live >= 0 && !f->active[l->live])) return false;
  if (l->kind == KIR_LANE) tile(f, l, span);
  else *(int64_t *)f->ptr[l->var] = span->at;
  return true;
}

static void move(struct vm_frame *f, int to, int from, const uint8_t *mask) {
  const struct vm_reg *r = &f->c->regs[to];
  if (r->kind == VM_ONE) memcpy(f->ptr[to], f->ptr[from], 8);
  else if (mask) f->tiles->blend[r->width](f->ptr[to], mask, f->ptr[from], NULL, f->n);
  else memcpy(f->ptr[to], f->ptr[from], (size_t)(f->n * r->width));
}

static void next(struct vm_frame *f, const struct vm_step *s) {
  const int *e = &f->c->list[s->lin.first];
  int n = s->lin.n;
  if (s->by_ref) {
    char *from[32];
    for (int i = 0; i < n; i++) from[i] = f->ptr[e[2 * i + 1]];
    for (int i = 0; i < n; i++) f->ptr[e[2 * i]] = from[i];
    return;
  }
  const uint8_t *mask = vm_mask(f, s->mask);
  for (int i = 0; i < n; i++)
    if (e[4 * i + 2] >= 0) move(f, e[4 * i + 2], e[4 * i + 1], NULL);
  for (int i = 0; i < n; i++)
    if (e[4 * i] != e[4 * i + 1]) move(f, e[4 * i], e[4 * i + 2] >= 0 ? e[4 * i + 2] : e[4 * i + 1], mask);
}

static void within(struct vm_frame *f, const struct vm_step *s) {
  const struct vm_loop *l = &f->c->loops[s->access];
  int64_t n = vm_lin_value(f, l->n), b = vm_lin_value(f, l->b), lo = vm_i64(f, l->var) * b, hi = b < n - lo ? lo + b : n;
  if (f->c->regs[s->out].kind != VM_ONE) f->tiles->within(f->ptr[s->out], f->ptr[s->in[0]], &lo, &hi, f->n);
  else *(uint8_t *)f->ptr[s->out] = lo <= vm_i64(f, s->in[0]) && vm_i64(f, s->in[0]) < hi;
}

static void iota(struct vm_frame *f, int out) {
  int64_t *o = (int64_t *)f->ptr[out];
  for (int64_t i = 0; i < f->n; i++) o[i] = f->at + i;
}

static bool cancelled(const struct vm_frame *f) {
  return cancel_is_set(f->launch->cancel);
}

void vm_exec(struct vm_frame *f, int first) {
  const struct vm_step *steps = f->c->steps;
  char **p = f->ptr; /* p[-1] is NULL: the register of an operand that is not there */
  for (const struct vm_step *s = steps + first;; s++) {
    bool jump = false;
    switch ((enum vm_code)s->code) {
      case VM_STOP: return;
      case VM_OP: s->run(p[s->out], p[s->in[0]], p[s->in[1]], p[s->in[2]], f->n); break;
      case VM_OP_ONE: s->run(p[s->out], p[s->in[0]], p[s->in[1]], p[s->in[2]], 1); break;
      case VM_OP_STORE: vm_op_store(f, s); break;
      case VM_LOAD: vm_load(f, s); break;
      case VM_LOAD_ONE: vm_load_one(f, s); break;
      case VM_STORE: vm_store(f, s); break;
      case VM_STORE_ONE: vm_store_one(f, s); break;
      case VM_ADDR: *(int64_t *)p[s->out] = vm_lin_value(f, s->lin) + (s->in[0] < 0 ? 0 : vm_i64(f, s->in[0])); break;
      case VM_IOTA: iota(f, s->out); break;
      case VM_ONES: ones(f, s->out, s->mask); break;
      case VM_WITHIN: within(f, s); break;
      case VM_JUMP: jump = true; break;
      case VM_UNLESS: jump = !*(const uint8_t *)p[s->in[0]]; break;
      case VM_MASK: jump = !narrow(f, s->out, s->mask, s->in[0]); break;
      case VM_CHECK: jump = !check(f, s); break;
      case VM_CHECK_ONE:
        jump = !*(const uint8_t *)p[s->in[0]];
        if (jump) report(f, s, 0);
        break;
      case VM_UNTIL: jump = !until(f, s); break;
      case VM_UNTIL_ONE:
        jump = *(const uint8_t *)p[s->in[0]];
        if (jump) f->span[s->access].hi = f->span[s->access].at;
        break;
      case VM_NEXT: next(f, s); break;
      case VM_BEGIN: case VM_LANE:
        if (!begin(f, s)) s = steps + f->c->loops[s->access].end;
        break;
      case VM_END:
        if (cancelled(f)) return;
        if (again(f, s)) s = steps + f->c->loops[s->access].begin;
        break;
      case VM_FOLD_OPEN: vm_fold_open(f, s->access); break;
      case VM_FOLD: vm_fold_step(f, s->access, s->mask); break;
      case VM_FOLD_CLOSE: vm_fold_close(f, s->access); break;
      case VM_CODES: break;
    }
    if (jump) s = steps + s->jump - 1;
  }
}
