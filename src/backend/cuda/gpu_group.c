/* gpu_group.c -- wgmma: four warps multiply 64 rows together by what is in shared memory, while they do something else.
 *
 * A matrix stands there in pieces of 64 columns of halves, rows of 128 bytes, eight of them an atom, aligned to its size; chunk c
 * of 16 bytes of row r stands at c ^ (r mod 8). Rows go along k, or they are steps of k (turned). What tells the tensor cores of it
 * is a number: address / 16, from piece to piece / 16, from atom to atom / 16, and how chunks stand. Only compute capability 9.0
 * has this (.target sm_90a). */
#include "backend/cuda/printer.h"

const char *ptx_group_told(struct printer *p, const char *address, int piece_bytes) {
  const char *r = ptx_own(p, OWN_LONG);
  unsigned long long how = 1ull << 62 | (unsigned long long)(PTX_ATOM / 16) << 32 | (unsigned long long)(piece_bytes / 16) << 16;
  ptx_line(p, "and.b64 %s, %s, 0x3ffff", r, address);
  ptx_line(p, "shr.u64 %s, %s, 4", r, r);
  ptx_line(p, "or.b64 %s, %s, 0x%llx", r, r, how);
  return r;
}

const char *ptx_group_at(struct printer *p, const char *told, const char *bytes, int more) {
  const char *r = ptx_own(p, OWN_LONG);
  if (!bytes) { ptx_line(p, "add.s64 %s, %s, %d", r, told, more / 16); return r; }
  ptx_line(p, "shr.u64 %s, %s, 4", r, bytes);
  ptx_line(p, "add.s64 %s, %s, %s", r, r, told);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, more / 16);
  return r;
}

const char *ptx_group_list(struct printer *p, const char *const (*x)[4], int n) {
  const char *list = "";
  for (int j = 0; j < n; j++) list = ptx_textf(p, "%s%s%s, %s, %s, %s", list, j ? ", " : "", x[j][0], x[j][1], x[j][2], x[j][3]);
  return list;
}

void ptx_group_begin(struct printer *p) { ptx_line(p, "wgmma.fence.sync.aligned"); }

void ptx_group_end(struct printer *p) { ptx_line(p, "wgmma.commit_group.sync.aligned"); }

void ptx_group_wait(struct printer *p, int n_behind) { ptx_line(p, "wgmma.wait_group.sync.aligned %d", n_behind); }

void ptx_group_multiply(struct printer *p, const struct ptx_group *g) {
  const char *adds = g->adds_if ? g->adds_if : ptx_own(p, OWN_PRED);
  if (!g->adds_if) ptx_line(p, "mov.pred %s, %d", adds, g->adds);
  ptx_line(p, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {%s}, %s, %s, %s, 1, 1%s, %d", g->columns, g->type, g->type,
           g->sums, g->a, g->b, adds, g->a_in_registers ? "" : g->a_is_turned ? ", 1" : ", 0", g->b_is_turned);
}
