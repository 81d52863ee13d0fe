/* program_build.c -- building programs: as they are written, or written out by hand; and the rows that have bodies. Written out,
 * a loop is its steps one after the other, a choice the side that is taken, a call its body, a map its rows. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "every_graph.h"
#include "program_kinds.h"

#define MAKE(name) static bool make_##name(struct program *p, const struct kind *kind)
#define BUILD(name) static bool build_##name(struct build *b, const struct step *s, weft_array *out[])
extern const struct kind kind_loop, kind_cond, kind_call, kind_map, kind_grad, kind_vjp, kind_jvp, kind_checkpoint, kind_custom;
static const struct form *form(const struct program *p, int i) { return &p->step[i].form; }

/* ---- what was used ---- */

static const char *const options[] = {
  "weft_from", "weft_external", "weft_file_get", "weft_integer", "weft_input", "weft_compile", "weft_keep", "weft_own", "weft_update", "weft_fetch",
  "weft_loop_each", "weft_loop_carry", "weft_loop_next", "weft_loop_until", "weft_loop_all", "weft_loop_tail", "weft_loop_last", "weft_loop_recompute",
  "weft_loop_truncate", "weft_loop_close", "weft_cond_value", "weft_cond_close", "loop steps", "loop steps of an array", "loop without a bound",
  "loop recompute 0", "rules of one's own", "loop in a loop", "next is a view", "all is a view", "carry is an output", "one array twice in a loop",
  "one array twice in a call", "call with open sizes", "call in a call", "cond in a loop", "loop in a cond", "map of a loop", "map of names", "depth 3",
  "gradient of a loop", "gradient of a call", "gradient checked", "jvp checked", "mapped", "as a function", "as an open function", "steady", "updated",
  "async", "excused", "written out", "second derivative", "lives", "one array for two inputs", "updated in place", "updated in the background",
  "state let go before it is read", "state given to a call", "evaluated by several threads", "dropped while computed", "dropped between rounds",
  "view of a state held", "result held", "evaluated on the way", "evaluated in the background on the way", "several evaluated on the way",
  "sizes asked on the way", "owned on the way", "disowned on the way", "mapped after it has run",
  "second derivative by what is between", "second derivative by what is in a region", "call that may capture",
};
static int64_t *uses;
enum { OPTIONS = sizeof options / sizeof *options };

static int row_of(const char *name) {
  int n = 0;
  for (; program_kinds[n]; n++) if (!strcmp(program_kinds[n]->name, name)) return n;
  for (int k = 0; k < OPTIONS; k++) if (!strcmp(options[k], name)) return n + k;
  return -1;
}

static int64_t *count_of_use(const char *name) { /* NULL: no such row */
  int i = row_of(name);
  if (!uses) uses = mmap(NULL, 4096 * sizeof *uses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (uses == MAP_FAILED) abort();
  return i < 0 ? NULL : &uses[i];
}

bool program_counts = true;

void used(const char *name) {
  int64_t *n = count_of_use(name);
  if (n && program_counts) __atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

int64_t program_used(const char *name) {
  const int64_t *n = count_of_use(name);
  return n ? *n : -1;
}

/* What is counted, but no way to use anything. */
static bool is_excuse(const char *name) { return !strcmp(name, "excused") || !strcmp(name, "mapped after it has run"); }

int program_print_uses(FILE *out) {
  int n = 0, column = 0, n_rows = 0, n_unused = 0, rarest = -1;
  for (; program_kinds[n]; n++) {}
  for (int i = 0; uses && i < n + OPTIONS; i++) {
    const char *name = i < n ? program_kinds[i]->name : options[i - n];
    if (row_of(name) != i) continue;
    n_rows++, n_unused += !uses[i] && !is_excuse(name);
    if (!is_excuse(name) && (rarest < 0 || uses[i] < uses[rarest])) rarest = i;
    column += fprintf(out, "%s%s %lld", column ? ", " : "  ", name, (long long)uses[i]);
    if (column > 100) fputc('\n', out), column = 0;
  }
  if (rarest >= 0) fprintf(out, "\n  %d rows, %d of them unused; the rarest, %s: %lld\n", n_rows, n_unused, rarest < n ? program_kinds[rarest]->name : options[rarest - n], (long long)uses[rarest]);
  return n_unused;
}

/* ---- blocks ---- */

static void release(void *ctx) { free(ctx); }

/* layout: 0, 1: dense; 2: backwards; 3: every second; 4: the axes turned round. */
weft_array *plain_array(const struct plain *x, int64_t layout) {
  used(layout < 2 || !x->count ? "weft_from" : "weft_external");
  if (layout < 2 || !x->count) return weft_from(x->dtype, x->rank, x->dims, x->data);
  size_t size = weft_dtype_bytes(x->dtype);
  int64_t stride[PLAIN_RANK], far = 0, step = layout == 3 ? 2 : 1;
  char *memory = calloc((size_t)x->count * 2 + 1, size);
  if (!memory) abort();
  for (int i = x->rank - 1; i >= 0; i--) {
    int k = layout == 4 ? x->rank - 1 - i : i;
    stride[k] = step, step *= x->dims[k], far += stride[k] * (x->dims[k] - 1);
  }
  for (int k = 0; layout == 2 && k < x->rank; k++) stride[k] = -stride[k];
  weft_block b = { memory + (layout == 2 ? (size_t)far * size : 0), 0, x->dtype, x->rank, x->dims, stride };
  for (int64_t i = 0; i < x->count; i++) {
    int64_t at[PLAIN_RANK], to = 0;
    plain_index(x, i, at);
    for (int k = 0; k < x->rank; k++) to += at[k] * stride[k];
    memcpy((char *)b.data + to * (int64_t)size, x->data + (size_t)i * size, size);
  }
  return weft_external(&b, release, memory);
}

static bool is_good(struct build *b, int i, int n) {
  for (int k = 0; k < n; k++)
    if (weft_check(b->at[i][k])) {
      snprintf(b->why, sizeof b->why, "step %d, %s: %s", i, b->p->step[i].row->name, weft_message());
      return false;
    }
  return true;
}

static bool build_step(struct build *b, int i) {
  const struct step *s = &b->p->step[i];
  weft_array *in[PROGRAM_INS];
  if (s->row == &kind_param) return true;
  if (b->given[i]) return b->at[i][0] = b->given[i], true;
  if (s->row == &kind_leaf) return b->at[i][0] = plain_array(b->leaf[i] ? b->leaf[i] : &s->value, s->p[0]), is_good(b, i, 1);
  if (s->row == &kind_item) return b->at[i][0] = b->at[s->in[0]][s->p[0]], is_good(b, i, 1);
  if (!b->is_written_out) used(s->row->name);
  if (s->row->build) return s->row->build(b, s, b->at[i]);
  for (int k = 0; k < s->n_in; k++) in[k] = b->at[s->in[k]][0];
  b->at[i][0] = s->row->one(in, s);
  return is_good(b, i, 1);
}

static int depth_of(const struct program *p, int block) {
  int d = 0;
  for (; block > 0; block = p->blocks[block].parent) d++;
  return d;
}

/* ---- what is done with parts of a program before the rest is written ---- */

static uint32_t chance(struct build *b, uint32_t below) {
  b->touches = b->touches * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(b->touches >> 33) % below;
}

/* What depends on a name has no value, and what fails here fails where it is wanted: statuses say nothing. */
static void evaluate(struct build *b, weft_array *a, int before) {
  weft_array *some[2] = { a, before >= 0 ? b->at[before][0] : NULL };
  weft_status s = WEFT_OK;
  switch (chance(b, 4)) {
    case 0: s = weft_eval_async(1, some), used("evaluated in the background on the way"); break;
    case 1: if (some[1]) { s = weft_eval(2, some), used("several evaluated on the way"); break; } /* fall through */
    default: s = weft_eval(1, some), used("evaluated on the way");
  }
  (void)s;
}

static void own(struct build *b, weft_array *a) {
  if (b->n_owned == PROGRAM_OUTS || (b->n_owned && chance(b, 2))) weft_disown(b->owned[--b->n_owned]), used("disowned on the way");
  else b->owned[b->n_owned++] = weft_own(a), used("weft_own"), used("owned on the way");
}

static void touch(struct build *b, int i, int before) {
  weft_array *a = b->at[i][0];
  if (!a || chance(b, 3)) return;
  switch (chance(b, 6)) {
    case 0: own(b, a); break;
    case 1:
      for (int k = 0; k < weft_rank(a); k++) (void)weft_dim(a, k);
      used("sizes asked on the way");
      break;
    default: evaluate(b, a, before);
  }
}

bool build_block(struct build *b, int block) {
  int before = -1;
  if (!b->is_written_out && depth_of(b->p, block) == 3) used("depth 3");
  for (int i = 0; i < b->p->n; i++) {
    if (b->p->step[i].block != block || b->p->step[i].is_dead) continue;
    if (!build_step(b, i)) return false;
    if (b->named == i + 1) b->at[i][0] = weft_alias(b->at[i][0]);
    if (b->touches) touch(b, i, before), before = b->at[i][0] ? i : before;
  }
  return true;
}

static bool is_parent(const struct program *p, int block, const struct kind *kind) {
  for (int i = 0; i < p->n; i++) if (!p->step[i].is_dead && p->step[i].row == kind && (p->step[i].body[0] == block || p->step[i].body[1] == block)) return true;
  return false;
}
/* Whether the step is an array that whoever builds the program has: of the whole, or of a region that is computed again. */
bool program_has(const struct program *p, int i) {
  int block = p->step[i].block;
  while (block > 0 && (is_parent(p, block, &kind_checkpoint) || is_parent(p, block, &kind_custom))) block = p->blocks[block].parent;
  return !block;
}

bool program_build(struct build *b) {
  bool ok = build_block(b, 0);
  while (b->n_owned) weft_disown(b->owned[--b->n_owned]);
  return ok;
}

static weft_array *param(const struct build *b, int block, int k) { return b->at[b->p->blocks[block].param[k]][0]; }
static void set_param(struct build *b, int block, int k, weft_array *a) { b->at[b->p->blocks[block].param[k]][0] = a; }
static weft_array *result(const struct build *b, int block, int k) { return b->at[b->p->blocks[block].out[k]][0]; }
static weft_array *operand(const struct build *b, const struct step *s, int k) { return b->at[s->in[k]][0]; }
static weft_array *row(weft_array *xs, int64_t t) { return weft_squeeze(weft_slice(xs, 0, t, t + 1, 1), 0); }

static bool is_inside(const struct program *p, int block, const struct kind *kind) {
  for (; block > 0; block = p->blocks[block].parent) if (is_parent(p, block, kind)) return true;
  return false;
}
static bool is_view(const struct step *s) {
  static const char *const views[] = { "weft_slice", "weft_transpose", "weft_broadcast", "weft_flip", "weft_at", "weft_reshape", "weft_as_strided", "weft_moveaxis", "weft_window", "weft_split", NULL };
  for (int k = 0; views[k]; k++) if (!strcmp(s->row->name, views[k])) return true;
  return false;
}

/* ---- choosing bodies ---- */

static int rounds(struct program *p) {
  static const int few[] = { 2, 1, 3, 0, 4, 5 };
  return once_in(p, 8) && block_depth(p) < 2 ? 17 : few[any(p, block_depth(p) > 1 ? 3 : 6)];
}

/* Values for results, the newest first; a parameter or what is captured now and then. */
static int result_for(struct program *p, int wanted) {
  int v = pick(p, wanted);
  for (int tries = 0; tries < 4 && v >= 0 && p->step[v].block != p->block; tries++) {
    int w = pick(p, wanted);
    if (w >= 0) v = w;
  }
  return v;
}

static const struct kind *named(const char *name) {
  for (int k = 0; program_kinds[k]; k++) if (!strcmp(program_kinds[k]->name, name)) return program_kinds[k];
  return NULL;
}

/* v itself, or a view of it. */
static int shown(struct program *p, int v) {
  static const char *const views[] = { "weft_flip", "weft_slice", "weft_transpose", "weft_roll", "weft_at", "weft_broadcast", "weft_as_strided" };
  if (v < 0 || !once_in(p, 3) || !form(p, v)->rank || !is_known(form(p, v)) || !count_of(form(p, v))) return v;
  const struct kind *kind = named(views[any(p, sizeof views / sizeof *views)]);
  int before = p->n;
  p->wanted = v + 1;
  bool ok = kind->make(p, kind);
  p->wanted = 0;
  return ok && p->n > before ? p->n - 1 : v;
}

/* A 0-d bool that depends on something. */
static int condition(struct program *p) {
  int v = pick(p, FLOAT);
  if (v < 0 || once_in(p, 6)) return leaf(p, WEFT_BOOL, 0, NULL);
  if (form(p, v)->rank) v = grow(p, named("weft_sum"), 1, &v, 1, (int64_t[]){ WEFT_ALL });
  int n = v < 0 ? -1 : leaf(p, form(p, v)->dtype, 0, NULL);
  return grow(p, named(once_in(p, 2) ? "weft_lt" : "weft_ge"), 2, (int[]){ v, n }, 0, NULL);
}

/* ---- loops ---- */

enum { L_SEQ, L_CARRY, L_ALL, L_STEPS, L_N, L_UNTIL, L_RECOMPUTE, L_TRUNCATE, L_TAIL, L_UNBOUND };
enum { BY_SEQUENCE, BY_NUMBER, BY_ARRAY };

static int64_t shortest(const struct program *p, const struct step *s) {
  int64_t n = INT64_MAX;
  bool is_open = false;
  for (int k = 0; k < s->p[L_SEQ]; k++) {
    int64_t d = form(p, s->in[(s->p[L_STEPS] == BY_ARRAY) + k])->dims[0];
    if (d < 0) is_open = true;
    else if (d < n) n = d;
  }
  return is_open && n ? PROGRAM_OPEN : n; /* no rows are the fewest, whatever the others have */
}

static bool take_loop_inputs(struct program *p, struct step *s, struct form param[]) {
  int n_seq = (int)any(p, 3), n_carry = n_seq ? (int)any(p, 3) : 1 + (int)any(p, 2);
  s->p[L_UNBOUND] = once_in(p, 8);
  if (s->p[L_UNBOUND]) n_seq = 0, n_carry = 1 + (int)any(p, 2);
  for (int k = 0; k < n_seq; k++) {
    int a = k && once_in(p, 2) ? s->in[k - 1] : pick(p, RANK_1 | SMALL | (p->is_smooth ? FLOAT : 0));
    if (a < 0 || form(p, a)->dims[0] > 20 || (!is_known(form(p, a)) && form(p, a)->dims[0] >= 0)) return false;
    s->in[s->n_in++] = a;
    param[k] = *form(p, a);
    param[k].rank--;
    memmove(param[k].dims, param[k].dims + 1, sizeof *param[k].dims * (size_t)param[k].rank);
  }
  for (int k = 0; k < n_carry; k++) {
    int a = k && once_in(p, 3) ? s->in[s->n_in - 1] : pick(p, KNOWN | SMALL | (p->is_smooth ? FLOAT : 0));
    if (a < 0) return false;
    s->in[s->n_in++] = a;
    param[n_seq + k] = *form(p, a);
  }
  s->p[L_SEQ] = n_seq, s->p[L_CARRY] = n_carry;
  s->p[L_STEPS] = n_seq ? (once_in(p, 3) ? BY_NUMBER : BY_SEQUENCE) : once_in(p, 3) ? BY_ARRAY : BY_NUMBER;
  int64_t most = shortest(p, s);
  s->p[L_N] = rounds(p);
  if (s->p[L_STEPS] == BY_SEQUENCE) s->p[L_N] = most;
  else if (most == PROGRAM_OPEN) s->p[L_STEPS] = BY_SEQUENCE, s->p[L_N] = PROGRAM_OPEN;
  else if (s->p[L_N] > most) s->p[L_N] = most;
  s->p[L_UNTIL] = s->p[L_UNBOUND] || once_in(p, 4);
  return s->p[L_N] <= 20;
}

/* The number of steps as an array; a counter in front of the carries of a loop that nothing else ends. */
static void take_loop_steps(struct program *p, struct step *s, struct form param[]) {
  int first = -1;
  if (s->p[L_UNBOUND]) {
    s->p[L_STEPS] = BY_SEQUENCE;
    if (s->p[L_N] < 1) s->p[L_N] = 1;
    first = leaf(p, WEFT_I64, 0, NULL);
    plain_set_i(&p->step[first].value, 0, 0);
    p->step[first].is_index = true;
    memmove(param + 1, param, sizeof *param * (size_t)s->n_in);
    param[0] = *form(p, first);
    s->p[L_CARRY]++;
  } else if (s->p[L_STEPS] == BY_ARRAY) {
    first = leaf(p, WEFT_I64, 0, NULL);
    plain_set_i(&p->step[first].value, 0, s->p[L_N]);
    p->step[first].is_index = true;
  }
  if (first < 0) return;
  memmove(s->in + 1, s->in, sizeof *s->in * (size_t)s->n_in++);
  s->in[0] = first;
}

MAKE(loop) {
  struct step s = { .row = kind };
  struct form param[PROGRAM_INS];
  if (!take_loop_inputs(p, &s, param)) return false;
  take_loop_steps(p, &s, param);
  int n_carry = (int)s.p[L_CARRY], n_seq = (int)s.p[L_SEQ], n = p->n, blocks = p->n_blocks;
  int body = block_open(p, false, n_seq + n_carry, param);
  fill(p, 1 + (int)any(p, 5));
  int out[PROGRAM_OUTS], m = 0, counter = -1;
  bool ok = true;
  if (s.p[L_UNBOUND]) ok = (counter = out[m++] = grow_number(p, named("weft_scalar"), p->blocks[body].param[0], 3, (int64_t[]){ 0, 1, 0 }, 1)) >= 0;
  for (int k = s.p[L_UNBOUND]; ok && k < n_carry; k++) ok = (out[m++] = fitted(p, shown(p, result_for(p, 0)), &param[n_seq + k])) >= 0;
  s.p[L_ALL] = s.p[L_UNBOUND] ? once_in(p, 2) : any(p, 3);
  for (int k = 0; ok && k < s.p[L_ALL]; k++) ok = (out[m++] = shown(p, result_for(p, KNOWN))) >= 0;
  if (ok && s.p[L_UNTIL]) {
    int end = -1, c = s.p[L_UNBOUND] ? -1 : condition(p);
    if (s.p[L_UNBOUND]) end = leaf(p, WEFT_I64, 0, NULL), plain_set_i(&p->step[end].value, 0, s.p[L_N]), p->step[end].is_index = true;
    ok = (out[m++] = s.p[L_UNBOUND] ? grow(p, named("weft_ge"), 2, (int[]){ counter, end }, 0, NULL) : c) >= 0;
  }
  block_close(p, body);
  if (!ok) { /* what was added stays where nobody sees it */
    (void)n, (void)blocks;
    return false;
  }
  p->blocks[body].n_outs = m;
  memcpy(p->blocks[body].out, out, sizeof out);
  s.body[0] = body;
  if (s.p[L_UNBOUND] ? s.p[L_ALL] : s.p[L_ALL] && once_in(p, 4)) s.p[L_TAIL] = 1 + any(p, 4);
  if (once_in(p, 3)) s.p[L_RECOMPUTE] = 1 + (s.p[L_UNTIL] || s.p[L_STEPS] == BY_ARRAY ? 1 + any(p, 3) : any(p, 4));
  if (s.p[L_TAIL] && (s.p[L_STEPS] == BY_ARRAY || s.p[L_UNTIL] || s.p[L_N] < 0)) s.p[L_RECOMPUTE] = 0;
  if (!p->is_smooth && !s.p[L_RECOMPUTE] && once_in(p, 6)) s.p[L_TRUNCATE] = 1 + any(p, 3);
  int many = grow_many(p, kind, s), first = -1;
  int64_t length = s.p[L_UNTIL] || s.p[L_N] < 0 || s.p[L_STEPS] == BY_ARRAY ? PROGRAM_OPEN : s.p[L_N];
  for (int k = 0; k < s.p[L_ALL]; k++) {
    struct form f = *form(p, out[n_carry + k]);
    memmove(f.dims + 1, f.dims, sizeof *f.dims * (size_t)f.rank++);
    f.dims[0] = k == 0 && s.p[L_TAIL] && length >= 0 && length > s.p[L_TAIL] ? s.p[L_TAIL] : length;
    if (f.rank <= 5) first = item(p, many, k, f);
  }
  for (int k = 0; k < n_carry; k++) first = item(p, many, (int)s.p[L_ALL] + k, param[n_seq + k]);
  return first >= 0;
}

static void count_loop(const struct build *b, const struct step *s) {
  const struct program *p = b->p;
  const struct block *body = &p->blocks[s->body[0]];
  if (b->is_written_out) return;
  if (s->p[L_STEPS] == BY_NUMBER) used("loop steps"), used("weft_integer");
  if (s->p[L_STEPS] == BY_ARRAY) used("loop steps of an array");
  if (s->p[L_SEQ]) used("weft_loop_each");
  if (s->p[L_CARRY]) used("weft_loop_carry"), used("weft_loop_next"), used("weft_loop_last");
  if (s->p[L_UNTIL]) used("weft_loop_until");
  if (s->p[L_UNBOUND]) used("loop without a bound");
  if (s->p[L_ALL]) used(s->p[L_TAIL] ? "weft_loop_tail" : "weft_loop_all");
  if (s->p[L_RECOMPUTE]) used("weft_loop_recompute"), used(s->p[L_RECOMPUTE] == 1 ? "loop recompute 0" : "");
  if (s->p[L_TRUNCATE]) used("weft_loop_truncate");
  used("weft_loop_close");
  if (is_inside(p, s->block, s->row)) used("loop in a loop");
  if (is_inside(p, s->block, &kind_cond)) used("loop in a cond");
  if (is_inside(p, s->block, &kind_map)) used("map of a loop");
  for (int k = 0; k < s->n_in; k++) for (int j = 0; j < k; j++) if (s->in[j] == s->in[k]) used("one array twice in a loop");
  for (int k = 0; k < body->n_outs; k++) {
    const struct step *y = &p->step[body->out[k]];
    if (is_view(y)) used(k < s->p[L_CARRY] ? "next is a view" : "all is a view");
    if (y->row == &kind_param && k >= s->p[L_CARRY]) used("carry is an output");
  }
}

static bool loop_by_hand(struct build *b, const struct step *s, weft_array *out[]) {
  int body = s->body[0], n_seq = (int)s->p[L_SEQ], n_carry = (int)s->p[L_CARRY], n_all = (int)s->p[L_ALL], at = s->p[L_STEPS] == BY_ARRAY;
  enum { MOST = 64 };
  weft_array *all[PROGRAM_OUTS][MOST], *carry[PROGRAM_OUTS];
  int64_t steps = s->p[L_UNBOUND] ? MOST : s->p[L_N], done = 0;
  for (int k = 0; k < n_seq; k++) {
    int64_t rows = weft_dim(operand(b, s, at + k), 0);
    if (rows < 0) return snprintf(b->why, sizeof b->why, "rows: %s", weft_message()), false; /* it is refused, and has none */
    if (steps < 0 || rows < steps) steps = rows;
  }
  if (n_seq && steps > MOST) return snprintf(b->why, sizeof b->why, "%lld steps are not written out by hand", (long long)steps), false;
  for (int k = 0; k < n_carry; k++) carry[k] = operand(b, s, at + n_seq + k);
  for (bool is_over = false; done < steps && done < MOST && !is_over; done++) {
    for (int k = 0; k < n_seq; k++) set_param(b, body, k, row(operand(b, s, at + k), done));
    for (int k = 0; k < n_carry; k++) set_param(b, body, n_seq + k, carry[k]);
    if (!build_block(b, body)) return false;
    for (int k = 0; k < n_carry; k++) carry[k] = result(b, body, k);
    for (int k = 0; k < n_all; k++) all[k][done] = weft_unsqueeze(result(b, body, n_carry + k), 0);
    struct plain stop;
    if (!s->p[L_UNTIL]) continue;
    if (!plain_graph(1, (weft_array *[]){ result(b, body, n_carry + n_all) }, 0, NULL, &stop)) return snprintf(b->why, sizeof b->why, "until: %s", plain_graph_why()), false;
    is_over = plain_i(&stop, 0);
    plain_free(&stop);
  }
  for (int k = 0; k < n_all; k++) {
    const struct form *f = form(b->p, b->p->blocks[body].out[n_carry + k]);
    int64_t dims[PLAIN_RANK + 1] = { 0 }, from = k == 0 && s->p[L_TAIL] && s->p[L_TAIL] < done ? done - s->p[L_TAIL] : 0;
    memcpy(dims + 1, f->dims, sizeof *dims * (size_t)f->rank);
    out[k] = done ? weft_concat(0, (int)(done - from), all[k] + from) : weft_full(f->dtype, f->rank + 1, dims, 0);
  }
  for (int k = 0; k < n_carry; k++) out[n_all + k] = carry[k];
  return true;
}

BUILD(loop) {
  count_loop(b, s);
  if (b->is_written_out) return loop_by_hand(b, s, out);
  int body = s->body[0], n_seq = (int)s->p[L_SEQ], n_carry = (int)s->p[L_CARRY], n_all = (int)s->p[L_ALL], at = s->p[L_STEPS] == BY_ARRAY;
  weft_loop *l = weft_loop_open(s->p[L_STEPS] == BY_NUMBER ? weft_integer(s->p[L_N]) : at ? operand(b, s, 0) : NULL);
  for (int k = 0; k < n_seq; k++) set_param(b, body, k, weft_loop_each(l, operand(b, s, at + k)));
  for (int k = 0; k < n_carry; k++) set_param(b, body, n_seq + k, weft_loop_carry(l, operand(b, s, at + n_seq + k)));
  if (!build_block(b, body)) return false;
  weft_array *carry[PROGRAM_OUTS];
  for (int k = 0; k < n_carry; k++) carry[k] = param(b, body, n_seq + k);
  for (int k = 0; k < n_carry; k++) weft_loop_next(l, carry[k], result(b, body, k));
  if (s->p[L_UNTIL]) weft_loop_until(l, result(b, body, n_carry + n_all));
  if (s->p[L_RECOMPUTE]) weft_loop_recompute(l, s->p[L_RECOMPUTE] - 1);
  if (s->p[L_TRUNCATE]) weft_loop_truncate(l, s->p[L_TRUNCATE]);
  for (int k = 0; k < n_all; k++) {
    weft_array *y = result(b, body, n_carry + k);
    out[k] = k == 0 && s->p[L_TAIL] ? weft_loop_tail(l, y, s->p[L_TAIL]) : weft_loop_all(l, y);
  }
  for (int k = 0; k < n_carry; k++) out[n_all + k] = weft_loop_last(l, carry[k]);
  weft_loop_close(l);
  return is_good(b, (int)(s - b->p->step), n_all + n_carry);
}

/* ---- choices ---- */

MAKE(cond) {
  struct step s = { .row = kind, .n_in = 1 };
  struct form f[2];
  int n = 1 + (int)any(p, 2);
  if ((s.in[0] = condition(p)) < 0) return false;
  for (int side = 0; side < 2; side++) {
    int block = block_open(p, false, 0, NULL);
    fill(p, (int)any(p, 4));
    for (int k = 0; k < n; k++) {
      int v = result_for(p, KNOWN | (p->is_smooth ? FLOAT : 0));
      if (side) v = fitted(p, v, &f[k]);
      else if (v >= 0) f[k] = *form(p, v);
      p->blocks[block].out[p->blocks[block].n_outs++] = v;
    }
    block_close(p, block);
    for (int k = 0; k < n; k++) if (p->blocks[block].out[k] < 0) return false;
    s.body[side] = block;
  }
  int many = grow_many(p, kind, s), last = -1;
  for (int k = 0; k < n; k++) last = item(p, many, k, f[k]);
  return last >= 0;
}

BUILD(cond) {
  int n = b->p->blocks[s->body[0]].n_outs;
  if (b->is_written_out) {
    struct plain p;
    if (!plain_graph(1, (weft_array *[]){ operand(b, s, 0) }, 0, NULL, &p)) return snprintf(b->why, sizeof b->why, "cond: %s", plain_graph_why()), false;
    int side = plain_i(&p, 0) ? 0 : 1;
    plain_free(&p);
    if (!build_block(b, s->body[side])) return false;
    for (int k = 0; k < n; k++) out[k] = result(b, s->body[side], k);
    return true;
  }
  if (is_inside(b->p, s->block, &kind_loop)) used("cond in a loop");
  weft_cond *c = weft_cond_open(operand(b, s, 0));
  for (int side = 0; side < 2; side++) if (!build_block(b, s->body[side])) return false;
  for (int k = 0; k < n; k++) out[k] = weft_cond_value(c, result(b, s->body[0], k), result(b, s->body[1], k));
  weft_cond_close(c);
  used("weft_cond_value"), used("weft_cond_close");
  return is_good(b, (int)(s - b->p->step), n);
}

/* ---- functions ---- */

/* Values for arguments, the same one twice now and then. */
static int take_arguments(struct program *p, struct step *s, int most, int wanted, struct form param[]) {
  int n = 1 + (int)any(p, (uint32_t)most);
  for (int k = 0; k < n; k++) {
    int a = k && once_in(p, 3) ? s->in[0] : pick(p, wanted);
    if (a < 0) return 0;
    s->in[s->n_in++] = a;
    param[k] = *form(p, a);
  }
  return n;
}

static bool take_results(struct program *p, int block, int most, int wanted) {
  int n = 1 + (int)any(p, (uint32_t)most);
  for (int k = 0; k < n; k++) {
    int v = shown(p, result_for(p, wanted));
    if (v < 0) return false;
    p->blocks[block].out[p->blocks[block].n_outs++] = v;
  }
  return true;
}

static bool take_items(struct program *p, const struct kind *kind, struct step s, int block) {
  int many = grow_many(p, kind, s), last = -1;
  for (int k = 0; k < p->blocks[block].n_outs; k++) last = item(p, many, k, *form(p, p->blocks[block].out[k]));
  return last >= 0;
}

MAKE(call) {
  struct step s = { .row = kind };
  struct form param[PROGRAM_INS];
  int n = take_arguments(p, &s, 3, p->is_smooth ? FLOAT : 0, param);
  if (!n) return false;
  int block = s.body[0] = block_open(p, !once_in(p, 3), n, param);
  fill(p, 1 + (int)any(p, 5));
  bool ok = take_results(p, block, 2, p->is_smooth ? FLOAT : 0);
  block_close(p, block);
  s.p[0] = once_in(p, 3);
  return ok && take_items(p, kind, s, block);
}

static bool call_function(struct build *b, const struct step *s, bool is_open, weft_array *out[]) {
  int block = s->body[0], n = b->p->blocks[block].n_params, m = b->p->blocks[block].n_outs;
  weft_array *in[PROGRAM_INS], *arg[PROGRAM_INS], *y[PROGRAM_OUTS];
  weft_scope *scope = weft_scope_open();
  for (int k = 0; k < n; k++) {
    struct form f = *form(b->p, b->p->blocks[block].param[k]);
    for (int d = 0; d < f.rank; d++) if (is_open && f.dims[d] != 1) f.dims[d] = WEFT_ANY;
    set_param(b, block, k, in[k] = weft_input(f.dtype, f.rank, f.dims));
    arg[k] = operand(b, s, k);
  }
  bool ok = build_block(b, block);
  if (!ok) return weft_scope_discard(scope), false;
  for (int k = 0; k < m; k++) y[k] = result(b, block, k);
  weft_function *f = weft_compile(scope, n, in, m, y);
  weft_call(f, n, arg, m, out);
  used("weft_input"), used("weft_compile");
  return is_good(b, (int)(s - b->p->step), m);
}

BUILD(call) {
  int block = s->body[0], m = b->p->blocks[block].n_outs;
  if (b->is_written_out) {
    for (int k = 0; k < s->n_in; k++) set_param(b, block, k, operand(b, s, k));
    if (!build_block(b, block)) return false;
    for (int k = 0; k < m; k++) out[k] = result(b, block, k);
    return true;
  }
  for (int k = 1; k < s->n_in; k++) if (s->in[k] == s->in[0]) used("one array twice in a call");
  if (is_inside(b->p, s->block, s->row)) used("call in a call");
  if (!b->p->blocks[block].is_closed) used("call that may capture");
  if (b->is_open && s->p[0]) {
    if (call_function(b, s, true, out)) return used("call with open sizes"), true;
    used("excused");
  }
  return call_function(b, s, false, out);
}

/* ---- maps ---- */

MAKE(map) {
  struct step s = { .row = kind };
  struct form param[PROGRAM_INS];
  int n = take_arguments(p, &s, 2, KNOWN | RANK_1 | FULL | (p->is_smooth ? FLOAT : 0), param);
  if (!n || param[0].dims[0] > 6) return false;
  for (int k = 0; k < n; k++) {
    if (param[k].dims[0] != form(p, s.in[0])->dims[0]) return false;
    memmove(param[k].dims, param[k].dims + 1, sizeof *param[k].dims * (size_t)--param[k].rank);
  }
  int block = s.body[0] = block_open(p, false, n, param);
  fill(p, 1 + (int)any(p, 5));
  bool ok = take_results(p, block, 2, KNOWN | (p->is_smooth ? FLOAT : 0));
  block_close(p, block);
  s.p[0] = once_in(p, 2);
  if (!ok) return false;
  int many = grow_many(p, kind, s), last = -1;
  for (int k = 0; k < p->blocks[block].n_outs; k++) {
    struct form f = *form(p, p->blocks[block].out[k]);
    memmove(f.dims + 1, f.dims, sizeof *f.dims * (size_t)f.rank++);
    f.dims[0] = form(p, s.in[0])->dims[0];
    if (f.rank > 5) return false;
    last = item(p, many, k, f);
  }
  return last >= 0;
}

BUILD(map) {
  enum { MOST = 8 };
  int block = s->body[0], n = s->n_in, m = b->p->blocks[block].n_outs;
  weft_array *x[PROGRAM_INS], *xs[PROGRAM_INS], *y[PROGRAM_OUTS], *rows[PROGRAM_OUTS][MOST];
  for (int k = 0; k < n; k++) xs[k] = operand(b, s, k);
  int64_t count = form(b->p, s->in[0])->dims[0];
  if (b->is_written_out) {
    for (int64_t r = 0; r < count; r++) {
      for (int k = 0; k < n; k++) set_param(b, block, k, row(xs[k], r));
      if (!build_block(b, block)) return false;
      for (int k = 0; k < m; k++) rows[k][r] = result(b, block, k);
    }
    for (int k = 0; k < m; k++) out[k] = weft_stack(0, (int)count, rows[k]);
    return true;
  }
  for (int k = 0; k < n; k++) {
    const struct form *f = form(b->p, b->p->blocks[block].param[k]);
    set_param(b, block, k, x[k] = s->p[0] ? weft_input(f->dtype, f->rank, f->dims) : weft_alias(weft_at(xs[k], 0, weft_integer(0))));
  }
  if (s->p[0]) used("map of names");
  if (!build_block(b, block)) return false;
  for (int k = 0; k < m; k++) y[k] = result(b, block, k);
  weft_map(n, x, xs, m, y, out);
  return is_good(b, (int)(s - b->p->step), m);
}

/* ---- derivatives ---- */

/* One more operand for each of these forms: the weights of a derivative. */
static bool take_weights(struct program *p, struct step *s, int n, const struct form f[]) {
  for (int k = 0; k < n; k++) {
    int u = fitted(p, pick(p, FLOAT | KNOWN), &f[k]);
    if (u < 0) return false;
    s->in[s->n_in++] = u;
  }
  return true;
}

MAKE(derivative) {
  struct step s = { .row = kind };
  struct form param[PROGRAM_INS], result[PROGRAM_OUTS];
  if (!p->is_smooth) return false;
  int n = take_arguments(p, &s, 2, FLOAT | KNOWN, param);
  if (!n || (kind == &kind_jvp && !take_weights(p, &s, n, param))) return false;
  int block = s.body[0] = block_open(p, false, n, param);
  fill(p, 1 + (int)any(p, 5));
  bool ok = take_results(p, block, kind == &kind_grad ? 1 : 2, FLOAT | KNOWN);
  block_close(p, block);
  for (int k = 0; k < p->blocks[block].n_outs; k++) result[k] = *form(p, p->blocks[block].out[k]);
  if (!ok || (kind == &kind_vjp && !take_weights(p, &s, p->blocks[block].n_outs, result))) return false;
  if (kind == &kind_jvp) return take_items(p, kind, s, block);
  int many = grow_many(p, kind, s), last = -1;
  for (int k = 0; k < n; k++) last = item(p, many, k, param[k]);
  return last >= 0;
}

BUILD(derivative) {
  int block = s->body[0], n = b->p->blocks[block].n_params, m = b->p->blocks[block].n_outs;
  weft_array *x[PROGRAM_INS], *weights[PROGRAM_INS], *y[PROGRAM_OUTS];
  for (int k = 0; k < n; k++) set_param(b, block, k, x[k] = weft_alias(operand(b, s, k)));
  if (!build_block(b, block)) return false;
  for (int k = 0; k < m; k++) y[k] = result(b, block, k);
  for (int k = n; k < s->n_in; k++) weights[k - n] = operand(b, s, k);
  if (s->row == &kind_jvp) weft_jvp(n, x, weights, m, y, out);
  else if (s->row == &kind_vjp) weft_vjp(m, y, weights, n, x, out);
  else weft_grad(y[0], n, x, out);
  if (!b->is_written_out && (is_inside(b->p, s->block, &kind_grad) || is_inside(b->p, s->block, &kind_vjp))) used("second derivative");
  return is_good(b, (int)(s - b->p->step), s->row == &kind_jvp ? m : n);
}

/* ---- checkpoints and rules of one's own ---- */

MAKE(region) {
  struct step s = { .row = kind };
  struct form param[PROGRAM_INS];
  int n = take_arguments(p, &s, 2, p->is_smooth ? FLOAT : 0, param);
  if (!n) return false;
  int block = s.body[0] = block_open(p, false, n, param);
  fill(p, 1 + (int)any(p, 4));
  bool ok = take_results(p, block, 2, p->is_smooth ? FLOAT : 0);
  block_close(p, block);
  for (int k = 0; kind == &kind_custom && k < p->blocks[block].n_outs; k++) s.p[0] |= (int64_t)(plain_is_float(form(p, p->blocks[block].out[k])->dtype) && once_in(p, 2)) << k;
  return ok && take_items(p, kind, s, block);
}

/* 2 x, by rules that somebody has given. */
static int twice_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)x, (void)y;
  return dx[0] = weft_add(dy[0], dy[0]), 0;
}
static int twice_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  (void)ctx;
  return dy[0] = dx[0] ? weft_add(dx[0], dx[0]) : weft_full_like(x[0], 0), 0;
}
static int twice_map(void *ctx, weft_array *const xs[], const int is_mapped[], weft_array *ys[]) {
  (void)ctx, (void)is_mapped;
  return ys[0] = weft_add(xs[0], xs[0]), 0;
}
static weft_array *twice(weft_array *x, bool is_written_out) {
  weft_array *y = weft_add(x, x);
  if (is_written_out) return y;
  weft_custom(1, &x, 1, &y, &(weft_rules){ .vjp = twice_vjp, .jvp = twice_jvp, .map = twice_map });
  return used("rules of one's own"), y;
}

static bool build_region(struct build *b, const struct step *s, bool is_custom, weft_array *out[]) {
  int block = s->body[0], n = s->n_in, m = b->p->blocks[block].n_outs;
  weft_array *x[PROGRAM_INS];
  for (int k = 0; k < n; k++) set_param(b, block, k, x[k] = operand(b, s, k));
  if (!build_block(b, block)) return false;
  for (int k = 0; k < m; k++) out[k] = result(b, block, k);
  if (!b->is_written_out && is_custom) weft_custom(n, x, m, out, &(weft_rules){ 0 });
  if (!b->is_written_out && !is_custom) weft_checkpoint(n, x, m, out);
  for (int k = 0; is_custom && k < m; k++) if (s->p[0] & 1 << k) out[k] = twice(out[k], b->is_written_out);
  return is_good(b, (int)(s - b->p->step), m);
}
BUILD(checkpoint) { return build_region(b, s, false, out); }
BUILD(custom) { return build_region(b, s, true, out); }

const struct kind kind_leaf = { "leaf", 0, true, NULL, NULL, NULL, NULL }, kind_param = { "parameter", 0, true, NULL, NULL, NULL, NULL },
                  kind_item = { "result", 0, true, NULL, NULL, NULL, NULL };
const struct kind kind_loop = { "weft_loop_open", 14, true, make_loop, NULL, build_loop, NULL }, kind_cond = { "weft_cond_open", 6, true, make_cond, NULL, build_cond, NULL },
                  kind_call = { "weft_call", 7, true, make_call, NULL, build_call, NULL }, kind_map = { "weft_map", 5, true, make_map, NULL, build_map, NULL },
                  kind_grad = { "weft_grad", 8, true, make_derivative, NULL, build_derivative, NULL }, kind_vjp = { "weft_vjp", 5, true, make_derivative, NULL, build_derivative, NULL },
                  kind_jvp = { "weft_jvp", 6, true, make_derivative, NULL, build_derivative, NULL },
                  kind_checkpoint = { "weft_checkpoint", 2, true, make_region, NULL, build_checkpoint, NULL },
                  kind_custom = { "weft_custom", 2, true, make_region, NULL, build_custom, NULL };
