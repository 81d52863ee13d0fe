/* settings.c -- the settings of a thread: as the environment says, until weft_set says otherwise; and what weft_get tells of the
 * library and the machine. */
#include <stdlib.h>
#include <string.h>
#include "backend/blas.h"
#include "graph/node.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/memory.h"
#include "run/pool.h"

/* A setting of bytes of a device: until set otherwise its memory is the limit, and the cache keeps what fits. */
static int64_t bytes_there(const struct device *d, weft_setting s) {
  struct device_bytes b = d->bytes(d);
  switch (s) {
    case WEFT_BYTES_USED: return b.used;
    case WEFT_BYTES_CACHED: return b.cached;
    case WEFT_BYTES_PEAK: return b.peak;
    case WEFT_BYTES_CACHE: return b.cache_limit;
    default: return b.limit;
  }
}

static bool is_about_bytes(weft_setting s) { return s >= WEFT_BYTES_LIMIT && s <= WEFT_BYTES_PEAK; }

static int check_default(void) {
  const char *s = getenv("WEFT_CHECK");
  return s && !strcmp(s, "nan") ? 1 : s && !strcmp(s, "inf") ? 2 : 0;
}

static bool is_asked_for(const char *variable) {
  const char *s = getenv(variable);
  return s && *s && strcmp(s, "0");
}

static int halves_default(void) {
  const char *s = getenv("WEFT_HALVES");
  return !s || !*s ? HALVES_AS_USUAL : strcmp(s, "0") ? HALVES_LOOSE : HALVES_IN_ORDER;
}

_Thread_local struct eval_settings own_settings;

struct eval_settings *eval_settings_begin(void) {
  struct eval_settings *s = &own_settings;
  *s = (struct eval_settings){ .is_known = true, .device = device_default(), .check = check_default(), .rewrites = RULE_STABLE,
                               .blas = is_asked_for("WEFT_BLAS"), .halves = halves_default(), .tf32 = is_asked_for("WEFT_TF32"),
                               .strange = environment_strange() };
  return s;
}

int eval_threads(void) {
  int asked = eval_settings()->threads;
  return asked ? asked : pool_threads();
}

static _Thread_local struct { void (*call)(void *); void *ctx; } before_long;

void weft_before_long(void (*call)(void *ctx), void *ctx) { before_long.call = call, before_long.ctx = ctx; }
bool eval_is_to_tell(void) { return before_long.call != NULL; }
void eval_before_long(void) { if (before_long.call) before_long.call(before_long.ctx); }

int64_t weft_get(weft_setting s) {
  const struct device *there = is_about_bytes(s) ? device_numbered(eval_settings()->device) : NULL;
  if (there) return bytes_there(there, s);
  switch (s) {
    case WEFT_DEVICE: return eval_settings()->device;
    case WEFT_DEVICE_COUNT: return device_count();
    case WEFT_THREADS: return eval_threads();
    case WEFT_REWRITES: return eval_settings()->rewrites;
    case WEFT_CHECK: return eval_settings()->check;
    case WEFT_BLAS: return eval_settings()->blas;
    case WEFT_HALVES: return eval_settings()->halves;
    case WEFT_TF32: return eval_settings()->tf32;
    case WEFT_BYTES_LIMIT: return memory_limit();
    case WEFT_BYTES_CACHE: return memory_cache_limit();
    case WEFT_BYTES_USED: return memory_used();
    case WEFT_BYTES_CACHED: return memory_cached();
    case WEFT_BYTES_PEAK: return memory_peak();
    case WEFT_NODES: return node_live();
    case WEFT_KERNELS: return compiled_count();
    case WEFT_KERNELS_VM: return compiled_fallbacks();
    case WEFT_KERNELS_HOST: return device_steps_on_host();
  }
  return -1;
}

/* -1, and the message says what may be set. */
static int64_t refuse(const char *allowed, int64_t v) {
  failure_tell(fail(WEFT_ERR_ARG, scope_origin(), "weft_set: %s, not %lld", allowed, (long long)v));
  return -1;
}

static int64_t set_there(const struct device *d, weft_setting s, int64_t v, int64_t before) {
  if (s == WEFT_BYTES_PEAK) return d->set_peak(d, v), before;
  struct device_bytes b = d->bytes(d);
  if (s == WEFT_BYTES_CACHE) return d->set_limits(d, b.limit, v), before;
  if (s == WEFT_BYTES_LIMIT) return d->set_limits(d, v, b.cache_limit), before;
  return refuse("a setting that can be set", s);
}

/* Whether products may be given to a library from now on: one of the device that is set, or the host's. */
static bool find_blas(void) {
  const struct device *d = device_numbered(eval_settings()->device);
  if (d && d->multiplies && d->multiplies(d)) return true;
  const char *missing = blas_load();
  if (missing) failure_tell(fail(WEFT_ERR_FILE, scope_origin(), "weft_set: no BLAS: %s", missing));
  return !missing;
}

int64_t weft_set(weft_setting s, int64_t v) {
  int64_t before = weft_get(s);
  const struct device *there = is_about_bytes(s) ? device_numbered(eval_settings()->device) : NULL;
  if (there) return set_there(there, s, v, before);
  switch (s) {
    case WEFT_DEVICE:
      if (v < 0 || v >= device_count()) return failure_tell(device_missing("weft_set", v)), -1;
      eval_settings()->device = (int)v;
      return before;
    case WEFT_THREADS:
      if (v < 1 || v > 1024) return refuse("1 to 1024 threads", v);
      eval_settings()->threads = (int)v;
      pool_insist();
      return before;
    case WEFT_REWRITES:
      if (v < RULE_EXACT || v > RULE_FAST) return refuse("rewrites are 0 (exact), 1 (stable) or 2 (fast)", v);
      eval_settings()->rewrites = (enum rule_tag)v;
      return before;
    case WEFT_CHECK:
      if (v < 0 || v > 2) return refuse("checks are 0 (none), 1 (nan) or 2 (inf too)", v);
      eval_settings()->check = (int)v;
      return before;
    case WEFT_BLAS:
      if (v < 0 || v > 1) return refuse("BLAS is 0 or 1", v);
      if (v && !find_blas()) return -1;
      eval_settings()->blas = v;
      return before;
    case WEFT_HALVES:
      if (v < HALVES_IN_ORDER || v > HALVES_AS_USUAL) return refuse("halves are 0 (in order), 1 (any order) or 2 (as usual)", v);
      eval_settings()->halves = (int)v;
      return before;
    case WEFT_TF32:
      if (v < 0 || v > 1) return refuse("tf32 is 0 or 1", v);
      eval_settings()->tf32 = v;
      return before;
    case WEFT_BYTES_LIMIT: memory_set_limit(v); return before;
    case WEFT_BYTES_CACHE: memory_set_cache_limit(v); return before;
    case WEFT_BYTES_PEAK: memory_set_peak(v); return before;
    default: return refuse("a setting that can be set", s);
  }
}
