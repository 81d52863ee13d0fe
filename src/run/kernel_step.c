/* kernel_step.c -- steps that are one kernel, and what other kinds share with them: see kernel_step.h. */
#include "run/kernel_step.h"
#include <alloca.h>
#include <stdio.h>
#include <string.h>
#include "run/device.h"
#include "run/launch.h"
#include "run/show.h"

/* ---- stores ---- */

void kernel_stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  (void)s;
  for (int j = 0; j < p->n_bufs; j++) see_store(&p->bufs[j].store, p->bufs[j].use, v, of);
}

/* No other buffer of the step stands in the same store. */
static bool touches_once(const struct step *p, int buf) {
  for (int j = 0; j < p->n_bufs; j++) if (j != buf && p->bufs[j].store == p->bufs[buf].store) return false;
  return true;
}

/* The buffer of the step that is this store, used just so; -1: none. */
static int buffer_in(const struct step *p, int store, enum store_use use) {
  for (int j = 0; j < p->n_bufs; j++) if (p->bufs[j].use == use && p->bufs[j].store == store) return j;
  return -1;
}

/* On a device, one thread may store where another has still to load, as what all of them read beside a loop or once a row: there
 * the kernel is one loop whose iterations touch nothing of each other's, and what is in a row's lanes is one lane's. */
static bool threads_keep_apart(const struct kir_kernel *k, int in, int out) {
  struct kir_facts f = kir_facts(k);
  return f.divisible && (!f.n_lanes || (kir_lanes_own(k, in) && kir_lanes_own(k, out)));
}

bool kernel_may_overwrite(const struct step *p, int from, int to) {
  int in = buffer_in(p, from, STORE_READ), out = buffer_in(p, to, STORE_WRITTEN);
  return in >= 0 && out >= 0 && binding_is_same(&p->bufs[in], &p->bufs[out]) && touches_once(p, in) && touches_once(p, out) &&
         kir_may_donate(p->kernel, in, out) && (!p->is_for_device || threads_keep_apart(p->kernel, in, out));
}

/* ---- compiling ---- */

void kernel_drop(struct step *p) {
  kir_free(p->kernel);
  p->kernel = NULL;
}

bool kernel_compile(struct plan *p, int i, const struct device *device, struct failure **failure) {
  struct step *s = &p->schedule->step[i];
  p->code[i] = compiled_get(s->kernel, &s->shape, device, failure);
  s->kernel = NULL;
  p->is_there[i] = p->code[i] && p->code[i]->is_on_device;
  return p->code[i] != NULL;
}

/* A device compiles what the step will run, of all that the kernel may be. */
static struct failure *announce(const struct plan *p, int i) {
  const struct step *s = &p->schedule->step[i];
  const struct compiled *c = p->code[i];
  struct bound *bound = alloca(sizeof *bound * (size_t)(c->kernel->n_bufs + 1));
  step_bind(s, c->kernel, NULL, bound);
  struct launch l = { .sizes = s->sizes, .args = s->args, .bufs = bound };
  switch (p->device->announce(p->device, c->code, &l)) {
    case DEVICE_OK: return NULL;
    case DEVICE_NO_MEMORY: return fail(WEFT_ERR_MEMORY, s->origin, "weft: out of memory while compiling a kernel");
    default: return device_refuses(p->device, s->origin, c->text);
  }
}

static bool compile(struct plan *p, int i, struct failure **failure) {
  if (!kernel_compile(p, i, p->device, failure)) return false;
  if (p->is_there[i] && p->device->announce) *failure = announce(p, i);
  return !*failure;
}

/* ---- running ---- */

/* The index as it was given: one below 0 has been counted from the end. False: it is beyond i64, for all that is known, or where
 * starts of windows are that may have been another's. */
static bool given_index(const struct site *t, int64_t value, int64_t *index) {
  int64_t i = value < 0 ? value - t->bound : value, near = WINDOW_FAR / 2;
  bool is_far = i < -near && i > -WINDOW_FAR - near;
  *index = t->is_window && is_far ? i + WINDOW_FAR : i;
  return i < INT64_MAX && (t->is_window ? is_far || (i >= -near && i < near) : !is_far);
}

struct failure *step_index_failure(const struct step *s, int site, struct finding f, bool has_value) {
  const struct site *t = &s->site[site];
  char value[24] = "";
  struct text step = { 0 };
  int64_t place = f.place, index;
  if (t->is_told) return fail(t->status, t->origin, "%s", t->text);
  if (has_value && given_index(t, f.value, &index)) snprintf(value, sizeof value, "%lld ", (long long)index);
  if (t->a_step) text_add_step(&step, place / t->a_step, t->is_backward), place %= t->a_step;
  struct failure *why = fail(WEFT_ERR_INDEX, t->origin, "%s: the index %sat place %lld is out of range for an axis of %lld%s",
                             t->text, value, (long long)place, (long long)t->bound, text_of(&step));
  text_free(&step);
  return why;
}

struct failure *step_first_failure(const struct step *s, const struct finding f[]) {
  for (int i = 0; i < s->n_sites; i++) if (f[i].place != NOTHING_FOUND) return step_index_failure(s, i, f[i], true);
  return NULL;
}

void step_bind(const struct step *s, const struct kir_kernel *k, uint8_t *const base[], struct bound bound[]) {
  for (int j = 0; j < k->n_bufs; j++) {
    if (k->bufs[j].kind > KIR_INOUT) continue;
    const struct binding *b = &s->bufs[j];
    int64_t size = (int64_t)weft_dtype_bytes((weft_dtype)k->bufs[j].dtype);
    bound[j].data = base && b->store >= 0 ? base[b->store] + b->offset * size : NULL;
    memcpy(bound[j].stride, b->stride, sizeof b->stride);
    bound[j].in_register_dtype = false;
  }
}

/* One kernel on memory that starts at base[store]. */
static struct failure *launch(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  const struct step *s = &p->schedule->step[i];
  const struct compiled *c = p->code[i];
  const struct kir_kernel *k = c->kernel;
  struct bound *bound = alloca(sizeof *bound * (size_t)(k->n_bufs + 1));
  struct finding *checks = alloca(sizeof *checks * (size_t)(s->n_sites + 1));
  step_bind(s, k, base, bound);
  findings_clear(checks, s->n_sites);
  struct launch l = { .sizes = s->sizes, .args = s->args, .bufs = bound, .checks = checks, .cancel = r->cancel, .parts = s->parts,
                      .loads = r->loads ? r->loads[i] : NULL };
  int how = launch_run(c->backend, c->code, k, &c->facts, &l, r->threads);
  if (how == 1) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory for scratch");
  if (how == 2 || cancel_is_set(r->cancel)) return fail(WEFT_ERR_CANCELLED, 0, "weft_eval: cancelled");
  return step_first_failure(s, checks);
}

/* The same on a device. What its checks find is looked at when all steps are enqueued. */
static struct failure *enqueue(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  const struct step *s = &p->schedule->step[i];
  const struct compiled *c = p->code[i];
  struct bound *bound = alloca(sizeof *bound * (size_t)(c->kernel->n_bufs + 1));
  if (cancel_is_set(r->cancel)) return fail(WEFT_ERR_CANCELLED, 0, "weft_eval: cancelled");
  step_bind(s, c->kernel, base, bound);
  struct launch l = { .sizes = s->sizes, .args = s->args, .bufs = bound, .words = r->words, .stop = r->stop, .parts = s->parts };
  int how = p->device->launch(p->device, c->code, &l);
  if (how == DEVICE_NO_MEMORY)
    return fail(WEFT_ERR_MEMORY, s->origin, "weft_eval: out of memory on the device for scratch of %s", c->kernel->name);
  return how ? device_failure(p->device, how, s->origin) : NULL;
}

/* A copy of what stands there already. */
static bool moves_nothing(const struct step *s, uint8_t *const base[]) {
  const struct binding *from = &s->bufs[0], *to = &s->bufs[1];
  return s->is_copy && base[from->store] == base[to->store] && binding_is_same(from, to);
}

static struct failure *run(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  if ((r->overwrites || r->undo) && moves_nothing(&p->schedule->step[i], base)) return NULL;
  return p->code[i]->is_on_device ? enqueue(p, i, r, base) : launch(p, i, r, base);
}

static bool may_fail(const struct plan *p, int i) {
  const struct step *s = &p->schedule->step[i];
  const struct compiled *c = p->code[i];
  if (s->n_sites) return true;
  struct bound *bound = alloca(sizeof *bound * (size_t)(c->kernel->n_bufs + 1));
  step_bind(s, c->kernel, NULL, bound);
  struct launch l = { .sizes = s->sizes, .args = s->args, .bufs = bound };
  if (c->is_on_device) return c->backend->borrows && c->backend->borrows(c->code, &l);
  return launch_borrows(c->backend, c->code, c->kernel, &c->facts, &l);
}

/* ---- showing ---- */

/* Whose code runs the kernel, if it is a library's. */
static const char *library_of(const struct plan *p, int i) {
  const struct step *s = &p->schedule->step[i];
  const struct compiled *c = p->code[i];
  if (!c->backend->by) return NULL;
  struct bound *bound = alloca(sizeof *bound * (size_t)(c->kernel->n_bufs + 1));
  step_bind(s, c->kernel, NULL, bound);
  return c->backend->by(c->code, &(struct launch){ .sizes = s->sizes, .args = s->args, .bufs = bound });
}

void kernel_show(const struct plan *p, int i, const char *(*of_buffer)(const struct step *, int buf), struct text *t) {
  const struct step *s = &p->schedule->step[i];
  const struct kir_kernel *k = p->code[i]->kernel;
  const char *by = library_of(p, i);
  text_addf(t, "%d: %s on %s%s%s(", i, k->name, p->code[i]->backend->name, by ? " by " : "", by ? by : "");
  for (int j = 0; j < k->n_sizes; j++) text_addf(t, "%s%s=%lld", j ? ", " : "", k->vals[k->sizes[j]].name, (long long)s->sizes[j]);
  for (int j = 0; j < s->n_bufs; j++) {
    const char *other = of_buffer ? of_buffer(s, j) : NULL;
    text_addf(t, ", %s=", k->bufs[j].name);
    if (other) text_add(t, other);
    else store_show(p->schedule, s->bufs[j].store, t);
  }
  text_add(t, ")\n");
}

static void show(const struct plan *p, int i, struct text *t) { kernel_show(p, i, NULL, t); }

const struct step_kind step_kernel = {
  .name = "kernel", .where = STEP_WHERE_COMPILED, .stores = kernel_stores, .may_overwrite = kernel_may_overwrite,
  .drop = kernel_drop, .compile = compile, .run = run, .may_fail = may_fail, .show = show,
};

/* ---- kernels that compute an operand of a product, which runs them ---- */

static bool compile_for_host(struct plan *p, int i, struct failure **failure) { return kernel_compile(p, i, NULL, failure); }

static const char *piece(const struct step *s, int buf) { return s->bufs[buf].use == STORE_WRITTEN ? "piece" : NULL; }
static void show_maker(const struct plan *p, int i, struct text *t) { kernel_show(p, i, piece, t); }

const struct step_kind step_maker = {
  .name = "maker", .where = STEP_ON_HOST, .stores = kernel_stores, .drop = kernel_drop, .compile = compile_for_host,
  .show = show_maker,
};
