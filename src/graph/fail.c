/* fail.c -- failures: a status with its text, shared by everything that became bad because of it. */
#include "graph/fail.h"
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/hard.h"
#include "base/mem.h"
#include "base/text.h"
#include "graph/caller.h"

struct failure {
  _Atomic int refs;
  weft_status status;
  uint64_t origin;
  _Atomic bool seen;
  bool is_static;
  char message[];
};

static struct failure no_memory = { .status = WEFT_ERR_MEMORY, .is_static = true, .message = "weft: out of memory" };

/* NULL: out of memory. */
static struct failure *with_text(weft_status status, uint64_t origin, struct text *t) {
  struct failure *f = t->failed ? NULL : mem_alloc(sizeof *f + t->n + 1);
  if (f) {
    f->refs = 1;
    f->status = status;
    f->origin = origin;
    memcpy(f->message, text_of(t), t->n + 1);
  }
  text_free(t);
  return f;
}

/* Whether it is about an expression that is being written, not about a value of it. */
static bool is_of_writing(weft_status status) {
  return status == WEFT_ERR_ARG || status == WEFT_ERR_SHAPE || status == WEFT_ERR_DTYPE || status == WEFT_ERR_UNSUPPORTED;
}

/* "weft_add: shapes .." inside weft_addmm is what weft_addmm has to say. */
static void say_as_called(struct text *t) {
  const char *called = caller()->called, *said = t->failed ? "" : text_of(t), *rest = strstr(said, ": ");
  struct text own = { 0 };
  if (!called || strncmp(called, "weft_", 5) || strncmp(said, "weft_", 5) || !rest) return;
  text_addf(&own, "%s%s", called, rest);
  text_free(t);
  *t = own;
}

static struct failure *make(weft_status status, uint64_t origin, const char *format, va_list list) {
  struct text t = { 0 };
  text_addv(&t, format, list);
  if (is_of_writing(status)) say_as_called(&t);
  struct failure *f = with_text(status, origin, &t);
  return f ? f : &no_memory;
}

/* WEFT_ABORT=1: a debugger stands where the error arises. */
static void stop_if_asked(void) {
  const char *wish = getenv("WEFT_ABORT");
  if (wish && wish[0] == '1') raise(SIGABRT);
}

struct failure *fail(weft_status status, uint64_t origin, const char *format, ...) {
  va_list list;
  INVARIANT(status != WEFT_ERR_INTERNAL); /* a defect of ours */
  va_start(list, format);
  struct failure *f = make(status, origin, format, list);
  va_end(list);
  stop_if_asked();
  return f;
}

struct failure *failure_retain(struct failure *f) {
  if (!f->is_static) atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
  return f;
}

void failure_release(struct failure *f) {
  if (f && !f->is_static && atomic_fetch_sub(&f->refs, 1) == 1) mem_free(f);
}

struct failure *failure_for(struct failure *f, const char *fn) {
  static const char general[] = "weft_eval:";
  struct text t = { 0 };
  if (strncmp(f->message, general, sizeof general - 1)) return f;
  text_addf(&t, "%s%s", fn, strchr(f->message, ':'));
  struct failure *own = with_text(f->status, f->origin, &t);
  if (!own) return f;
  failure_seen(f, true);
  failure_release(f);
  return own;
}

void text_add_step(struct text *t, int64_t step, bool is_backward) {
  text_addf(t, " (step %lld of the loop%s)", (long long)step, is_backward ? ", going back" : "");
}

/* What the user says in a check of his own stays as it is. */
struct failure *failure_in_step(struct failure *f, int64_t step, bool is_backward) {
  struct text t = { 0 };
  if (f->status == WEFT_ERR_ASSERT) return f;
  text_add_step(&t, step, is_backward);
  struct failure *named = fail(f->status, f->origin, "%s%s", f->message, text_of(&t));
  text_free(&t);
  failure_release(f);
  return named;
}

weft_status failure_status(const struct failure *f) { return f->status; }
const char *failure_message(const struct failure *f) { return f->message; }
bool failure_seen(struct failure *f, bool mark) {
  return mark ? atomic_exchange(&f->seen, true) : atomic_load(&f->seen);
}

weft_status failure_report(struct failure *f) {
  struct caller *me = caller();
  struct failure *before = me->last;
  me->last = failure_retain(f);
  failure_release(before);
  failure_seen(f, true);
  return f->status;
}

weft_status failure_tell(struct failure *f) {
  if (!f) return WEFT_OK;
  weft_status status = failure_report(f);
  failure_release(f);
  return status;
}

weft_status report(weft_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  struct failure *f = make(status, caller()->origin, format, list);
  va_end(list);
  stop_if_asked();
  failure_tell(f);
  return status;
}

const char *weft_message(void) {
  struct failure *f = caller()->last;
  return f ? f->message : "";
}

uint64_t weft_blame(void) {
  struct failure *f = caller()->last;
  return f ? f->origin : 0;
}
