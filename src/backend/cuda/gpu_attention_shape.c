/* gpu_attention_shape.c -- sizes of attention: threads, rows and shared memory of a block, for a launch and for what is printed. */
#include "backend/cuda/gpu_attention.h"

enum { MORE = 16 }; /* bytes between rows of shared memory, unless by groups: fragments of eight rows are in different banks */

/* By groups: groups of a block of threads, which share the tiles, and blocks that are to find room on a processor, which they do
 * with heads of up to 64 elements (ptxas 13.0: 123, 122 and 168 registers). On an H200, 8 x 16 heads of 4096 rows, causal:
 * attention takes 0.71 ms so, 1.00 by one group a block, which waits for tiles, 0.85 by four, which wait for each other. With its
 * derivatives it takes 2.79, 3.02 with one group a block by queries, 2.91 with two by keys, where a processor has no third one. */
static const struct attend_form form_of_large_heads = { 2, 0 }, form_by_warps = { 1, 0 }, forms[] = {
  [KIR_ATTEND] = { 2, 2 }, [KIR_ATTEND_QUERY] = { 2, 2 }, [KIR_ATTEND_KEY] = { 1, 3 }
};

bool attend_is_by_groups(bool by_groups, const struct kir_attention *a) { return by_groups && a->dtype != WEFT_F32; }
struct attend_form attend_form_of(const struct kir_attention *a, bool by_groups) {
  return !by_groups ? form_by_warps : a->d <= 64 && a->e <= 64 ? forms[a->part] : form_of_large_heads;
}
bool attend_is_late(const struct kir_attention *a, bool by_groups) { return by_groups && a->part == KIR_ATTEND; }
static int stages_of(const struct kir_attention *a, bool by_groups) { return attend_is_late(a, by_groups) ? 3 : 2; }
int attend_fragments(const struct kir_attention *a, bool by_groups) {
  return !by_groups && a->dtype != WEFT_F32 && a->part == KIR_ATTEND && a->d <= 64 && a->e <= 64 ? 2 : 1;
}
int attend_rows(const struct kir_attention *a, bool by_groups) {
  return ATTEND_TILE * attend_fragments(a, by_groups) * attend_form_of(a, by_groups).groups;
}
/* Bytes that a row of n elements takes, over all pieces. */
int attend_row_bytes(const struct kir_attention *a, int n, bool by_groups) {
  return by_groups ? attend_up(n, 64) * 2 : a->dtype == WEFT_F32 ? attend_up(n, 32) * 4 + MORE : attend_up(n, 16) * 2 + MORE;
}

int attend_stage_bytes(const struct kir_attention *a, bool by_groups) {
  int stats = a->part != KIR_ATTEND_KEY ? 0 : by_groups ? PTX_ATOM : 2 * ATTEND_TILE * 4;
  return ATTEND_TILE * (attend_row_bytes(a, a->d, by_groups) + attend_row_bytes(a, a->e, by_groups)) + stats;
}

int attend_own_bytes(const struct kir_attention *a, bool by_groups) {
  int e_bytes = a->part == KIR_ATTEND ? 0 : attend_row_bytes(a, a->e, by_groups);
  return attend_rows(a, by_groups) * (attend_row_bytes(a, a->d, by_groups) + e_bytes);
}

static int shared_bytes(const struct kir_attention *a, bool by_groups) {
  int turn_bytes = a->dtype == WEFT_F32 ? ATTEND_TURN_BYTES : 0;
  return attend_own_bytes(a, by_groups) + stages_of(a, by_groups) * attend_stage_bytes(a, by_groups) + turn_bytes;
}

bool ptx_attends(const struct ptx_machine *m, int capability, const struct kir_attention *a) {
  return (size_t)shared_bytes(a, attend_is_by_groups(ptx_by_groups(capability), a)) <= m->shared_bytes;
}

bool ptx_attention_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], struct ptx_shape *s) {
  const struct kir_attention *a = p->attention;
  if (!a) return false;
  bool by_groups = attend_is_by_groups(p->by_groups, a);
  int64_t rows = ptx_size(&p->attention_rows, sizes, args), a_block = attend_rows(a, by_groups);
  int64_t blocks = rows > 0 ? (rows - 1) / a_block + 1 : 0;
  for (int i = 0; i < a->n_batch; i++) blocks *= ptx_size(&p->attention_batch[i], sizes, args);
  s->block[0] = (unsigned)(ATTEND_GROUP * attend_form_of(a, by_groups).groups), s->block[1] = s->block[2] = 1;
  s->grid[0] = (unsigned)blocks, s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = (size_t)shared_bytes(a, by_groups);
  return true;
}

/* The operands stand in chunks of 16 bytes, aligned at any index. */
bool ptx_attention_aligned_shape(const struct ptx_plan *p, const struct bound bufs[], struct ptx_shape *s) {
  const struct kir_attention *a = p->attention;
  if (!a) return false;
  int operand[] = { a->q, a->k, a->v, a->dy }, width = kir_width((weft_dtype)a->dtype);
  for (int i = 0; i < 4; i++) {
    const struct bound *x = operand[i] < 0 ? NULL : &bufs[operand[i]];
    if (!x) continue;
    if ((uintptr_t)x->data % 16 || x->stride[a->n_batch + 1] != 1) return false;
    for (int d = 0; d <= a->n_batch; d++) if (x->stride[d] * width % 16) return false;
  }
  return s->is_aligned = true;
}
