/* replay.c -- steps that are loops run step by step: the plan of the body on ping-pong buffers, nothing planned or allocated
 * a step.
 *
 * On a device, if all of the body runs there, the steps are enqueued one after the other and nobody waits between them. A number of
 * steps that stands there is read once. What `until` says is read every few steps; where that was too late the carries are put back
 * and the steps up to the last one run again. What its kernels check is told with the step, of as many steps as have words of their
 * own; with `until` it is read as that is. */
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "graph/dtype.h"
#include "run/device.h"
#include "run/show.h"

/* The memory of the body's stores for one step: leaves and outputs move, its own block stays. */
struct replaying {
  const struct plan *body;
  const struct replay *l;
  uint8_t *const *outside;   /* by store of the schedule around */
  uint8_t **base;            /* by store of the body */
  struct leaf *leaf;
};

static uint8_t *at(const struct replaying *f, const struct binding *b, int64_t size, int64_t step) {
  return f->outside[b->store] + (b->offset + step * b->stride[0]) * size;
}

static void bind(struct replaying *f, int64_t step, uint8_t *stop) {
  const struct replay *l = f->l;
  const struct schedule *s = f->body->schedule;
  int side = (int)(step & 1);
  for (int i = 0; i < s->n_stores; i++) {
    int k = s->store[i].leaf, carry = k - l->n_seq;
    if (k < 0) f->base[i] = s->store[i].is_output ? NULL : f->outside[l->body_block] + s->store[i].offset;
    else if (carry >= 0 && carry < l->n_carry) f->base[i] = f->outside[l->ping[2 * carry + side]];
    else f->base[i] = at(f, &l->in[k], l->leaf_size[k], k < l->n_seq ? step : 0);
  }
  for (int i = 0; i < s->n_targets; i++) {
    uint8_t **base = &f->base[s->output[i].place.store];
    if (i < l->n_carry) *base = f->outside[l->ping[2 * i + !side]];
    else if (i < l->n_carry + l->n_all) *base = at(f, &l->all[i - l->n_carry], l->all_size[i - l->n_carry], step);
    else *base = stop;
  }
}

static int64_t count_of(const struct replay *l, uint64_t bits) {
  double n = dtype_decode(l->count_dtype, bits);
  return n < 9e18 ? (int64_t)n : INT64_MAX;
}

static struct failure *check_count(int64_t most) {
  return most < 0 ? fail(WEFT_ERR_ARG, 0, "weft_loop_open: %lld steps", (long long)most) : NULL;
}

/* Which step it was; a choice has none. */
static struct failure *in_step(const struct replay *l, struct failure *f, int64_t step) {
  return l->is_branch ? f : failure_in_step(f, step, l->is_backward);
}

/* ---- on the host ---- */

/* How many steps at most; below 0: that is what the user asked for. */
static int64_t most_steps(const struct replaying *f) {
  const struct binding *c = &f->l->count;
  if (c->store < 0) return f->l->steps;
  uint64_t bits = 0;
  size_t size = weft_dtype_bytes(f->l->count_dtype);
  memcpy(&bits, f->outside[c->store] + c->offset * (int64_t)size, size);
  return count_of(f->l, bits);
}

static struct failure *steps(struct replaying *f, struct run *r, int64_t *n) {
  int64_t most = most_steps(f);
  struct failure *why = check_count(most);
  uint8_t *stop = f->outside[f->l->spare];
  struct run inside = { .cancel = r->cancel, .threads = r->threads, .leaf = f->leaf };
  while (!why && *n < most) {
    bind(f, *n, stop);
    why = plan_steps(f->body, &inside, f->base);
    if (why) return in_step(f->l, why, *n);
    ++*n;
    if (f->l->has_until && *stop) break;
  }
  return why;
}

static void leave(const struct replaying *f, int64_t n) {
  const struct replay *l = f->l;
  for (int k = 0; k < l->n_carry; k++)
    if (l->last[k].store >= 0)
      memcpy(at(f, &l->last[k], l->leaf_size[l->n_seq + k], 0), f->outside[l->ping[2 * k + (n & 1)]], (size_t)l->carry_bytes[k]);
  if (l->length.store >= 0) memcpy(f->outside[l->length.store] + l->length.offset * 8, &n, sizeof n);
}

/* ---- on a device ---- */

static uint64_t number(const void *address) { return (uint64_t)(uintptr_t)address; }

static int body_checks(const struct plan *body) {
  int n = 0;
  for (int i = 0; i < body->schedule->n_steps; i++) n += plan_checks(body, i);
  return n;
}

enum { FEW_STEPS = 256 }; /* with words of their own; more share them, and who fails is told without its step */
static int64_t word_rows(const struct replay *l) { return l->count.store < 0 && l->steps <= FEW_STEPS ? l->steps : 1; }

static int checks(const struct plan *p, int i) {
  return (int)word_rows(p->schedule->step[i].replay) * body_checks(p->body[i]);
}

static struct failure *found(const struct plan *p, int i, int check, const struct finding_words *w) {
  const struct plan *body = p->body[i];
  int n = body_checks(body), step = check / n, j = 0;
  for (check %= n; check >= plan_checks(body, j); j++) check -= plan_checks(body, j);
  const struct replay *l = p->schedule->step[i].replay;
  bool is_one = l->steps == 1 || l->is_branch;
  if (word_rows(l) > 1 || is_one) return in_step(l, plan_found(body, j, check, w), step);
  struct finding_words of_any_step;
  words_clear(&of_any_step, 1);
  of_any_step.place = w->place; /* parts of values of different steps may have met */
  return plan_found(body, j, check, &of_any_step);
}

static bool looks(const struct plan *p, int i) {
  const struct replay *l = p->schedule->step[i].replay;
  bool yes = l->count.store >= 0 || l->has_until;
  for (int k = 0; !yes && k < p->body[i]->schedule->n_steps; k++) yes = plan_looks(p->body[i], k);
  return yes;
}

static struct failure *read_there(const struct device *d, const struct run *r, void *to, const void *from, size_t bytes) {
  struct failure *stopped = device_await(d, r);
  if (stopped) return stopped;
  int how = d->download(d, QUEUE_COMPUTE, to, number(from), bytes);
  return how ? device_failure(d, how, 0) : NULL;
}

static struct failure *most_there(const struct replaying *f, const struct run *r, const struct device *d, int64_t *most) {
  const struct binding *c = &f->l->count;
  uint64_t bits = 0;
  size_t size = weft_dtype_bytes(f->l->count_dtype);
  *most = f->l->steps;
  if (c->store < 0) return check_count(*most);
  struct failure *why = read_there(d, r, &bits, f->outside[c->store] + c->offset * (int64_t)size, size);
  if (!why) *most = count_of(f->l, bits);
  return why ? why : check_count(*most);
}

static struct failure *enqueue_step(const struct replaying *f, struct run *inside, struct finding_words *words) {
  struct failure *why = NULL;
  inside->words = words;
  for (int i = 0; !why && i < f->body->schedule->n_steps; i++) {
    why = plan_step(f->body, i, inside, f->base);
    if (words) inside->words += plan_checks(f->body, i);
  }
  return why;
}

/* Words of the checks of a step; NULL: it has none. */
static struct finding_words *words_of(const struct replaying *f, const struct run *r, int64_t step) {
  int64_t each = body_checks(f->body);
  return each ? r->words + (word_rows(f->l) > 1 ? step * each : 0) : NULL;
}

/* Steps from..to - 1; each leaves whether it was the last one at `stop`, `apart` bytes further on than the one before. */
static struct failure *enqueue_steps(struct replaying *f, const struct run *r, int64_t from, int64_t to, uint8_t *stop, int apart) {
  struct run inside = { .cancel = r->cancel, .stop = r->stop, .threads = r->threads, .leaf = f->leaf };
  for (int64_t n = from; n < to; n++, stop += apart) {
    bind(f, n, stop);
    struct failure *why = enqueue_step(f, &inside, words_of(f, r, n));
    if (why) return in_step(f->l, why, n);
  }
  return NULL;
}

/* ---- until something ---- */

enum { AHEAD = 16 }; /* steps at most that are enqueued before the host looks whether one of them was the last */

struct lookout {
  struct replaying *f;
  struct run *r;
  const struct device *d;
  uint64_t at;               /* AHEAD bytes of what steps say, then the carries as they were; 0: the host looks after each step */
  size_t bytes;
};

static size_t apart(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void take_room(struct lookout *x) {
  struct event since;
  x->bytes = apart(AHEAD);
  for (int k = 0; k < x->f->l->n_carry; k++) x->bytes += apart((size_t)x->f->l->carry_bytes[k]);
  if (x->d->take(x->d, x->bytes, &x->at, &since)) x->at = 0;
}

/* The carries before step n, to where they are kept or back. */
static struct failure *copy_carries(const struct lookout *x, int64_t n, bool is_back) {
  const struct replay *l = x->f->l;
  uint64_t kept = x->at + apart(AHEAD);
  int how = DEVICE_OK;
  for (int k = 0; !how && k < l->n_carry; kept += apart((size_t)l->carry_bytes[k++])) {
    uint64_t now = number(x->f->outside[l->ping[2 * k + (n & 1)]]);
    how = x->d->copy(x->d, is_back ? now : kept, is_back ? kept : now, (size_t)l->carry_bytes[k]);
  }
  return how ? device_failure(x->d, how, 0) : NULL;
}

/* Checks of steps n .. n + k - 1, which found nothing before: their words are read, or as they were. */
static int64_t n_checks(const struct lookout *x, int64_t k) {
  return body_checks(x->f->body) * (word_rows(x->f->l) > 1 ? k : 1);
}

static struct failure *clear_words(const struct lookout *x, int64_t n, int64_t k) {
  int64_t count = n_checks(x, k);
  struct finding_words *none = count ? mem_alloc((size_t)count * sizeof *none) : NULL;
  if (!count) return NULL;
  if (!none) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  words_clear(none, count);
  int how = x->d->upload(x->d, QUEUE_COMPUTE, number(words_of(x->f, x->r, n)), none, (size_t)count * sizeof *none);
  mem_free(none);
  return how ? device_failure(x->d, how, 0) : NULL;
}

static struct failure *read_words(const struct lookout *x, int64_t n, int64_t k, bool *has_failed) {
  int64_t count = n_checks(x, k);
  struct finding_words *words = count ? mem_alloc((size_t)count * sizeof *words) : NULL;
  *has_failed = false;
  if (!count) return NULL;
  if (!words) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  struct failure *why = read_there(x->d, x->r, words, words_of(x->f, x->r, n), (size_t)count * sizeof *words);
  for (int64_t i = 0; !why && i < count; i++) *has_failed |= words[i].place != NOTHING_FOUND;
  mem_free(words);
  return why;
}

/* What the step said last, if it fails: its words stand alone. */
static struct failure *told(const struct lookout *x, int64_t n) {
  int count = body_checks(x->f->body);
  struct finding_words few[16], *words = count <= 16 ? few : mem_alloc((size_t)count * sizeof *words);
  if (!words) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  struct failure *why = read_there(x->d, x->r, words, words_of(x->f, x->r, n), (size_t)count * sizeof *words);
  for (int i = 0, k = 0; !why && i < x->f->body->schedule->n_steps; i++)
    for (int j = 0; !why && j < plan_checks(x->f->body, i); j++, k++)
      if (words[k].place != NOTHING_FOUND) why = in_step(x->f->l, plan_found(x->f->body, i, j, &words[k]), n);
  if (words != few) mem_free(words);
  return why;
}

/* So many steps from n on, and how many of them count: *k becomes fewer where one was the last. A check that fails in one of
 * several is looked for step by step: *k is 0 then. */
static struct failure *try_steps(struct lookout *x, int64_t n, int64_t *k, bool *is_over) {
  uint8_t said[AHEAD] = { 0 }, *stop = *k > 1 ? (uint8_t *)(uintptr_t)x->at : x->f->outside[x->f->l->spare];
  int64_t first = 0, tried = *k;
  bool has_failed = false;
  struct failure *why = tried > 1 ? copy_carries(x, n, false) : NULL;
  if (!why) why = enqueue_steps(x->f, x->r, n, n + tried, stop, 1);
  if (!why) why = read_there(x->d, x->r, said, stop, (size_t)tried);
  if (!why) why = read_words(x, n, tried, &has_failed);
  if (why) return why;
  while (first < tried && !said[first]) first++;
  *is_over = first < tried;
  *k = *is_over ? first + 1 : tried;
  if (tried == 1) return has_failed ? told(x, n) : NULL;
  if (has_failed) *k = 0, *is_over = false;
  if (*k == tried) return NULL;
  why = copy_carries(x, n, true);
  if (!why) why = clear_words(x, n, tried);
  return why || !*k ? why : enqueue_steps(x->f, x->r, n, n + *k, stop, 1);
}

static struct failure *steps_until(struct replaying *f, struct run *r, const struct device *d, int64_t most, int64_t *n) {
  struct lookout x = { .f = f, .r = r, .d = d };
  struct failure *why = NULL;
  bool is_over = false;
  if (most > 1) take_room(&x);
  for (int64_t k = 1, next = 1; !why && *n < most && !is_over; *n += why ? 0 : k) {
    k = next < most - *n ? next : most - *n;
    why = try_steps(&x, *n, &k, &is_over);
    next = !x.at || !k ? 1 : next < AHEAD ? 2 * next : AHEAD;
  }
  if (x.at) d->give(d, x.at, x.bytes);
  return why;
}

static struct failure *steps_there(struct replaying *f, struct run *r, const struct device *d, int64_t *n) {
  int64_t most = 0;
  struct failure *why = most_there(f, r, d, &most);
  if (why) return why;
  if (f->l->has_until) return steps_until(f, r, d, most, n);
  *n = most;
  return enqueue_steps(f, r, 0, most, f->outside[f->l->spare], 0);
}

static struct failure *leave_there(const struct replaying *f, const struct run *r, const struct device *d, int64_t n) {
  const struct replay *l = f->l;
  struct failure *stopped = l->length.store >= 0 ? device_await(d, r) : NULL; /* the upload may have to wait for the steps */
  int how = DEVICE_OK;
  if (stopped) return stopped;
  for (int k = 0; !how && k < l->n_carry; k++)
    if (l->last[k].store >= 0)
      how = d->copy(d, number(at(f, &l->last[k], l->leaf_size[l->n_seq + k], 0)), number(f->outside[l->ping[2 * k + (n & 1)]]),
                    (size_t)l->carry_bytes[k]);
  if (!how && l->length.store >= 0)
    how = d->upload(d, QUEUE_COMPUTE, number(f->outside[l->length.store] + l->length.offset * 8), &n, sizeof n);
  return how ? device_failure(d, how, 0) : NULL;
}

/* ---- the step ---- */

static struct failure *run(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  struct plan *body = p->body[i];
  const struct replay *l = p->schedule->step[i].replay;
  struct replaying f = { body, l, base, mem_alloc(sizeof *f.base * (size_t)(body->schedule->n_stores + 1)), NULL };
  int64_t n = 0;
  f.leaf = mem_alloc(sizeof *f.leaf * (size_t)(body->schedule->n_leaves + 1));
  struct failure *why = f.base && f.leaf ? NULL : fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  if (!why) why = p->is_there[i] ? steps_there(&f, r, p->device, &n) : steps(&f, r, &n);
  if (!why && p->is_there[i]) why = leave_there(&f, r, p->device, n);
  else if (!why) leave(&f, n);
  mem_free(f.base);
  mem_free(f.leaf);
  return why;
}

static void see_all(int n, struct binding b[], enum store_use use, store_visitor *v, void *of) {
  for (int i = 0; i < n; i++) see_store(&b[i].store, use, v, of);
}

static void stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  struct replay *l = p->replay;
  (void)s;
  see_all(l->n_seq + l->n_carry + l->n_const, l->in, STORE_READ, v, of);
  see_all(1, &l->count, STORE_READ, v, of);
  see_all(l->n_all, l->all, STORE_WRITTEN, v, of);
  see_all(l->n_carry, l->last, STORE_WRITTEN, v, of);
  for (int k = 0; k < 2 * l->n_carry; k++) see_store(&l->ping[k], STORE_BOTH, v, of);
  see_all(1, &l->length, STORE_WRITTEN, v, of);
  see_store(&l->body_block, STORE_WRITTEN, v, of);
  see_store(&l->spare, STORE_WRITTEN, v, of);
}

static void drop(struct step *p) { schedule_drop_kernels(p->replay->body); }

/* ---- compiling ---- */

/* Nothing in it is for the host from the start. */
static bool may_be_there(const struct schedule *s) {
  for (int i = 0; i < s->n_steps; i++) {
    const struct step_kind *k = s->step[i].kind;
    if (k != &step_kernel && k != &step_library && !(k == &step_replay && may_be_there(s->step[i].replay->body))) return false;
  }
  return true;
}

static int count_kernels(const struct schedule *s) {
  int n = 0;
  for (int i = 0; i < s->n_steps; i++) {
    n += s->step[i].kernel != NULL;
    if (s->step[i].kind == &step_replay) n += count_kernels(s->step[i].replay->body);
  }
  return n;
}

/* A device may refuse a kernel when others of the body are compiled for it: their texts are kept, in order, to begin anew. */
static struct text *keep_texts(const struct schedule *s, struct text *to) {
  for (int i = 0; i < s->n_steps; i++) {
    if (s->step[i].kernel) kir_print(s->step[i].kernel, to++);
    if (s->step[i].kind == &step_replay) to = keep_texts(s->step[i].replay->body, to);
  }
  return to;
}

/* NULL: out of memory. */
static struct text *restore(struct schedule *s, struct text *from) {
  for (int i = 0; from && i < s->n_steps; i++) {
    struct text why = { 0 };
    if (s->step[i].kind == &step_kernel) {
      kir_free(s->step[i].kernel);
      s->step[i].kernel = NULL;
      if (from->failed || kir_parse(text_of(from++), &s->step[i].kernel, 1, &why) != 1) from = NULL;
    }
    text_free(&why);
    if (from && s->step[i].kind == &step_replay) from = restore(s->step[i].replay->body, from);
  }
  return from;
}

static bool is_all_there(const struct plan *p) {
  for (int i = 0; i < p->schedule->n_steps; i++) if (!p->is_there[i]) return false;
  return true;
}

/* *is_there: the body is compiled for the device. False: as compile. */
static bool compile_there(struct plan *p, int i, bool *is_there, struct failure **failure) {
  struct schedule *s = p->schedule->step[i].replay->body;
  int n = count_kernels(s);
  struct text *text = mem_alloc(sizeof *text * (size_t)(n + 1));
  if (!text) return false;
  keep_texts(s, text);
  p->body[i] = plan_of_schedule(NULL, s, p->device, failure);
  *is_there = p->body[i] && is_all_there(p->body[i]);
  bool ok = p->body[i] != NULL;
  if (ok && !*is_there) {
    plan_release(p->body[i]);
    p->body[i] = NULL;
    ok = restore(s, text) != NULL;
  }
  for (int k = 0; k < n; k++) text_free(&text[k]);
  mem_free(text);
  return ok;
}

static bool compile(struct plan *p, int i, struct failure **failure) {
  struct schedule *s = p->schedule->step[i].replay->body;
  bool is_there = false;
  if (p->device && p->device->copy && may_be_there(s) && !compile_there(p, i, &is_there, failure)) return false;
  if (!is_there) p->body[i] = plan_of_schedule(NULL, s, NULL, failure);
  p->is_there[i] = is_there;
  return p->body[i] != NULL;
}

static int64_t scratch(const struct plan *p, int i, int threads) { return plan_scratch(p->body[i], threads); }

static void show(const struct plan *p, int i, struct text *t) {
  text_addf(t, "%d: loop, step by step%s%s:\n", i, p->is_there[i] ? " on " : "", p->is_there[i] ? p->device->backend->name : "");
  plan_show(p->body[i], "plan", t);
}

const struct step_kind step_replay = {
  .name = "loop", .where = STEP_WHERE_ITS_BODY, .stores = stores, .drop = drop, .compile = compile, .run = run, .scratch = scratch,
  .checks = checks, .found = found, .looks = looks, .show = show,
};
