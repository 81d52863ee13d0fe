/* gpu_relay_shape.c -- which kernels have an entry that hands rows on, which launches take it, and whether two kernels would be
 * faster instead: see gpu_relay.h. */
#include "backend/cuda/gpu_relay.h"
#include "base/least.h"

static int least_width(const struct printer *p, const struct kir_relay *x) {
  int width = 8;
  for (int i = 0; i < x->n_reads; i++) width = (int)least(width, relay_width(p, x->read[i].buf));
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next)
      if (s->kind == KIR_STORE) width = (int)least(width, relay_width(p, s->buf));
  return width;
}

static void note_aligned(struct ptx_relay *x, int buf, int axis) {
  for (int i = 0; i < x->n_bufs; i++) if (x->bufs[i] == buf) return;
  if (x->n_bufs == PTX_WIDE_BUFS) x->each = 0;
  else x->bufs[x->n_bufs] = buf, x->axis[x->n_bufs++] = axis;
}

bool ptx_find_relay(const struct survey *s, const struct ptx_plan *plan, const struct shape_class *shape, struct ptx_relay *out) {
  struct kir_relay x;
  struct printer p = { .k = s->k };
  *out = (struct ptx_relay){ 0 };
  if (plan->capability < 90 || !s->in_order || s->n_checks || !kir_find_relay(s->k, &x)) return false;
  int width = least_width(&p, &x);
  out->each = width <= 2 ? 8 : 16 / width;
  out->row_bytes = relay_bytes(&p, &x, true), out->vector_bytes = relay_bytes(&p, &x, false), out->n_slots = x.n_slots;
  for (int i = 0; i < x.n_loops; i++)
    for (const struct kir_stmt *a = x.loop[i]->body.first; a; a = a->next) {
      if (a->kind != KIR_LOAD && (a->kind != KIR_STORE || a->op != KIR_SET)) continue;
      int axis = ptx_axis_along(shape, a, x.loop[i]->var);
      if (axis < 0 || (a->kind == KIR_LOAD && axis != x.read[kir_relay_read(&x, a->buf)].axis)) return false;
      note_aligned(out, a->buf, axis);
    }
  out->loop = x.loop[0];
  return out->each > 0 && out->row_bytes > 0;
}

/* Rows, and what stands before them, begin with whole 16 bytes. */
static bool is_aligned(const struct ptx_plan *p, const struct bound bufs[], int64_t n, const int64_t sizes[],
                       const uint64_t args[]) {
  for (int i = 0; i < p->relay.n_bufs; i++) {
    const struct ptx_buf *b = &p->bufs[p->relay.bufs[i]];
    const struct bound *x = &bufs[p->relay.bufs[i]];
    int64_t width = kir_width((weft_dtype)b->dtype);
    if ((uintptr_t)x->data % 16 || n * width % 16) return false;
    for (int d = 0; d < b->rank; d++)
      if (d != p->relay.axis[i] && x->stride[d] * width % 16 && ptx_size(&b->dims[d], sizes, args) > 1) return false;
  }
  return true;
}

/* How many rows have room, with as many threads to add them up; 0: too few. */
static int64_t places_for(const struct ptx_relay *x, const struct ptx_machine *m, size_t taken, int64_t n, int64_t writers) {
  int64_t room = (int64_t)m->shared_bytes - (int64_t)taken - RELAY_HEAD - RELAY_ADDERS * 8 * x->n_slots - 16;
  room -= n * x->vector_bytes;
  int64_t places = least(least(room / (n * x->row_bytes), RELAY_ADDERS), (RELAY_THREADS - writers) / 32);
  return places < RELAY_LEAST_ADDERS ? 0 : places;
}

bool ptx_relay_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                     const struct bound bufs[], struct ptx_shape *s) {
  const struct ptx_relay *x = &p->relay;
  if (!p->relay_entry) return false;
  int64_t n = ptx_size(&x->length, sizes, args), writers = (n + 32 * RELAY_EACH - 1) / (32 * RELAY_EACH) * 32;
  if (n < x->each || n % x->each || writers > RELAY_WRITERS || !is_aligned(p, bufs, n, sizes, args)) return false;
  int64_t places = places_for(x, m, p->partial_bytes + MERGED_BYTES, n, writers);
  int64_t blocks = ptx_parts(ptx_size(&p->block_n, sizes, args), ptx_size(&p->block_b, sizes, args));
  if (!places || blocks < 1 || blocks > INT32_MAX) return false;
  s->streams = (int)places;
  s->block[0] = (unsigned)(writers + 32 * places), s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)blocks, s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = (size_t)(RELAY_HEAD + (places * 8 * x->n_slots + 15) / 16 * 16);
  s->shared_bytes += (size_t)(n * (x->vector_bytes + places * x->row_bytes));
  s->row_bytes = s->scratch_bytes = 0;
  return s->is_relayed = true;
}

/* Estimates, in cycles of a processor. One does 128 statements a cycle, and waits a quarter as long besides; it moves 28 bytes a
 * cycle by itself, 16 where all do (an H200: 64 of its 132 processors moved 3.5 TB/s, all of them 4.1). To hand a row on takes
 * some 200. */
enum { STATEMENTS = 128, WAITING = 4, BYTES_ALONE = 28, BYTES_OF_ALL = 16, HANDING_ON = 200, BLOCK = 128 };

static double larger(double a, double b) { return a > b ? a : b; }

static double statements_take(const struct relayed *r) {
  return (double)(r->to_fold + r->to_store) * (double)r->columns / STATEMENTS * (WAITING + 1) / WAITING;
}

static double cycles_relayed(const struct ptx_machine *m, const struct relayed *r, double blocks) {
  double active = blocks < m->n_processors ? blocks : m->n_processors;
  double bytes = (double)BYTES_OF_ALL * m->n_processors / active, rounds = (double)(int64_t)((blocks - 1) / m->n_processors + 1);
  double moved = (r->row_bytes + r->written_bytes) * (double)r->columns / (bytes < BYTES_ALONE ? bytes : BYTES_ALONE);
  return rounds * BLOCK * (larger(moved, statements_take(r)) + HANDING_ON);
}

/* Rows are read twice, once by a kernel along them and once by one along columns. */
static double cycles_apart(const struct ptx_machine *m, const struct relayed *r) {
  double bytes = (double)r->columns * (2 * r->row_bytes + r->written_bytes);
  return (double)r->rows / m->n_processors * larger(bytes / BYTES_OF_ALL * (WAITING + 1) / WAITING, statements_take(r));
}

enum { LEAST_COLUMNS = 640, PROCESSORS_A_BLOCK = 3 };

bool ptx_relays(const struct ptx_machine *m, const struct relayed *r) {
  struct ptx_relay x = { .row_bytes = r->row_bytes ? r->row_bytes : 1, .vector_bytes = r->vector_bytes, .n_slots = r->n_slots };
  int64_t blocks = ptx_parts(r->rows, BLOCK), writers = (r->columns + 32 * RELAY_EACH - 1) / (32 * RELAY_EACH) * 32;
  bool is_large = blocks * PROCESSORS_A_BLOCK >= m->n_processors && r->columns >= LEAST_COLUMNS;
  if (!is_large || r->columns % 8 || writers > RELAY_WRITERS || !places_for(&x, m, 0, r->columns, writers)) return false;
  return !r->row_bytes || cycles_relayed(m, r, (double)blocks) <= cycles_apart(m, r);
}
