/* estimate.c -- see estimate.h. */
#include "estimate.h"
#include <stdio.h>
#include <stdlib.h>

enum { PROCESSORS = 132, SECTOR = 32, MOST_THREADS = 2048, MOST_BLOCKS = 32, STEP_CYCLES = 4, REQUEST_CYCLES = 60, BEGIN_CYCLES = 600 };
static const double CLOCK = 1.7e9, BYTES_A_SECOND = 4.2e12, CACHE_BYTES_A_SECOND = 5e12, SHARED_BYTES = 227e3;

/* key: the warp, the instruction and which time; the highest bit: it stores. */
struct touch { uint64_t key, sector; };

bool estimate_is_on(void) {
  static int on = -1;
  if (on < 0) on = getenv("WEFT_TEST_DRIVER_ESTIMATE") != NULL;
  return on;
}

uint64_t estimate_block(uint64_t n, int which) {
  if (n <= ESTIMATED_BLOCKS) return (uint64_t)which;
  return which == 0 ? n / 7 : which == 1 ? n / 2 : n - 1 - n / 7;
}

void estimate_access(struct estimate *e, unsigned warp, int at, uint32_t turn, bool stores, uint64_t address, int bytes) {
  uint64_t key = (uint64_t)stores << 63 | (uint64_t)(warp & 63) << 57 | (uint64_t)(at & 0x7fff) << 42 | turn;
  for (uint64_t s = address / SECTOR; s <= (address + (uint64_t)bytes - 1) / SECTOR; s++) {
    if (e->n_touch == e->room) e->touch = realloc(e->touch, (e->room = 2 * e->room + 4096) * sizeof *e->touch);
    e->touch[e->n_touch++] = (struct touch){ key, s };
  }
}

/* Allocations begin with a page. */
static bool is_inside(const struct area *a, uint64_t at) { return at >= a->from && at - a->from < a->bytes; }

static struct area *area_of(struct estimate *e, uint64_t at) {
  if (e->last_area < e->n_areas && is_inside(&e->areas[e->last_area], at)) return &e->areas[e->last_area];
  for (e->last_area = 0; e->last_area < e->n_areas; e->last_area++)
    if (is_inside(&e->areas[e->last_area], at)) return &e->areas[e->last_area];
  return NULL;
}

void estimate_area(struct estimate *e, uint64_t from, uint64_t bytes) {
  if (area_of(e, from)) return;
  e->areas = realloc(e->areas, (size_t)(e->n_areas + 1) * sizeof *e->areas);
  e->areas[e->n_areas++] = (struct area){ from, bytes, { 0 } };
}

static void touch_once(struct estimate *e, uint64_t at, int bytes, bool stores) {
  struct area *a = area_of(e, at);
  e->bytes_once += bytes;
  if (a) a->touched[stores] += bytes;
}

void estimate_bulk(struct estimate *e, uint64_t address, int bytes) { touch_once(e, address, bytes, false); }

void estimate_steps(struct estimate *e, uint64_t steps) {
  e->instructions += (double)steps;
  if ((double)steps > e->most_steps) e->most_steps = (double)steps;
}

static int order(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }
static int by_request(const void *x, const void *y) {
  const struct touch *a = x, *b = y;
  return a->key != b->key ? order(a->key, b->key) : order(a->sector, b->sector);
}
static int by_sector(const void *x, const void *y) {
  const struct touch *a = x, *b = y;
  return a->sector != b->sector ? order(a->sector, b->sector) : order(a->key >> 63, b->key >> 63);
}

void estimate_end_block(struct estimate *e, int threads) {
  double requests = 0;
  qsort(e->touch, e->n_touch, sizeof *e->touch, by_request);
  for (uint64_t i = 0; i < e->n_touch; i++) {
    bool is_new = !i || e->touch[i].key != e->touch[i - 1].key;
    requests += is_new, e->sectors += is_new || e->touch[i].sector != e->touch[i - 1].sector;
  }
  qsort(e->touch, e->n_touch, sizeof *e->touch, by_sector);
  for (uint64_t i = 0; i < e->n_touch; i++) {
    const struct touch *x = &e->touch[i], *last = i ? x - 1 : NULL;
    if (!last || x->sector != last->sector || x->key >> 63 != last->key >> 63)
      touch_once(e, x->sector * SECTOR, SECTOR, x->key >> 63);
  }
  double a_warp = requests * 32 / (threads > 32 ? threads : 32);
  if (a_warp > e->most_requests) e->most_requests = a_warp;
  e->requests += requests, e->n_touch = 0;
}

static double least(double a, double b) { return a < b ? a : b; }
enum { TIMES = 5 };
static double largest(const double x[TIMES]) {
  double y = x[0];
  for (int i = 1; i < TIMES; i++) if (x[i] > y) y = x[i];
  return y;
}

/* What there is to load and store in the allocations that were touched: blocks that touch more share it. */
static double bytes_of_memory(const struct estimate *e, double all) {
  double bytes = 0;
  for (int i = 0; i < e->n_areas; i++)
    for (int stores = 0; stores < 2; stores++) bytes += least(e->areas[i].touched[stores] * all, (double)e->areas[i].bytes);
  return bytes;
}

void estimate_tell(struct estimate *e, const char *name, uint64_t blocks, int threads, uint64_t shared_bytes, int n_run) {
  double all = n_run ? (double)blocks / n_run : 0, warps = (threads + 31) / 32, ms = 1e3 / CLOCK;
  double together = least(least(MOST_BLOCKS, MOST_THREADS / (warps * 32)), (double)(int)(SHARED_BYTES / ((double)shared_bytes + 1024)));
  double rounds = (double)blocks / (PROCESSORS * (together < 1 ? 1 : (double)(int)together));
  double at[TIMES] = { e->instructions * all / (4 * PROCESSORS) * ms, bytes_of_memory(e, all) / BYTES_A_SECOND * 1e3,
                   e->bytes_once * all / CACHE_BYTES_A_SECOND * 1e3,
                   (e->requests + e->sectors / 2) * all / PROCESSORS * ms,
                   (rounds < 1 ? 1 : rounds) * (e->most_steps * STEP_CYCLES + e->most_requests * REQUEST_CYCLES + BEGIN_CYCLES) * ms };
  fprintf(stderr, "estimate %s: %llu blocks of %d; steps %.0f, requests %.0f, sectors a request %.1f; issue %.4f memory %.4f cache %.4f requests %.4f "
          "waits %.4f; %.4f ms\n", name, (unsigned long long)blocks, threads, e->most_steps, e->most_requests,
          e->requests ? e->sectors / e->requests : 0, at[0], at[1], at[2], at[3], at[4], largest(at));
  free(e->touch);
  free(e->areas);
  *e = (struct estimate){ 0 };
}
