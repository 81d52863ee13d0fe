/* gen.c -- where the code of a kernel begins: see gen.h. */
#include "backend/x86/gen.h"

void gen_cannot(struct gen *g, const char *why) {
  if (!g->why) g->why = why;
}

bool gen_grow(struct gen *g, void **array, int *room, int n, size_t size) {
  if (n <= *room) return true;
  int more = *room ? 2 * *room : 16;
  while (more < n) more *= 2;
  void *p = arena_grow(g->arena, *array, (size_t)*room * size, (size_t)more * size);
  if (!p) return g->no_memory = true, false;
  *array = p;
  *room = more;
  return true;
}

int dtype_bytes(int dtype) {
  switch (dtype) {
  case WEFT_BOOL: case WEFT_U8: case WEFT_I8: return 1;
  case WEFT_U16: case WEFT_I16: case WEFT_F16: case WEFT_BF16: return 2;
  case WEFT_U32: case WEFT_I32: case WEFT_F32: return 4;
  default: return 8;
  }
}

int lane_bytes(int dtype) { return dtype_bytes(dtype) == 8 ? 8 : 4; }
int width_of(const struct gen *g, int dtype) { return g->lanes * lane_bytes(dtype); }

/* Scalar slots share cache lines of their own; everything else is a multiple of a vector. */
int32_t slot_scalar(struct gen *g) {
  if (g->scalar_at == g->scalar_end) {
    g->scalar_at = (g->frame + 63) & ~63;
    g->frame = g->scalar_end = g->scalar_at + 64;
  }
  return g->scalar_at += 8, g->scalar_at - 8;
}

int32_t slot_vector(struct gen *g, int n) {
  int32_t at = (g->frame + 63) & ~63;
  g->frame = at + n * g->vector_bytes;
  return at;
}

int32_t slot_spare(struct gen *g) { return g->n_spare ? g->spare[--g->n_spare] : slot_vector(g, 1); }

void slot_release(struct gen *g, int32_t at) {
  if (gen_grow(g, (void **)&g->spare, &g->spare_room, g->n_spare + 1, sizeof *g->spare)) g->spare[g->n_spare++] = at;
}
