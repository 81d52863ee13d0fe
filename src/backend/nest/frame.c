/* frame.c -- the frame: slots of numbers and of vectors, and lists of the analysis that grow. See nest.h. */
#include "backend/nest/nest.h"

void nest_cannot(struct nest *g, const char *why) {
  if (!g->why) g->why = why;
}

bool nest_grow(struct nest *g, void **array, int *room, int n, size_t size) {
  if (n <= *room) return true;
  int more = *room ? 2 * *room : 16;
  while (more < n) more *= 2;
  void *p = arena_grow(g->arena, *array, (size_t)*room * size, (size_t)more * size);
  if (!p) return g->no_memory = true, false;
  *array = p;
  *room = more;
  return true;
}

int dtype_bytes(int dtype) { return kir_width((weft_dtype)dtype); }

int lane_bytes(int dtype) { return dtype_bytes(dtype) == 8 ? 8 : 4; }

/* Scalar slots share cache lines of their own; everything else is a multiple of a vector. */
int32_t nest_slot_scalar(struct nest *g) {
  if (g->scalar_at == g->scalar_end) {
    g->scalar_at = (g->frame + 63) & ~63;
    g->frame = g->scalar_end = g->scalar_at + 64;
  }
  return g->scalar_at += 8, g->scalar_at - 8;
}

int32_t nest_slot_vector(struct nest *g, int n) {
  int32_t at = (g->frame + 63) & ~63;
  g->frame = at + n * g->vector_bytes;
  return at;
}

int32_t nest_slot_spare(struct nest *g) { return g->n_spare ? g->spare[--g->n_spare] : nest_slot_vector(g, 1); }

void nest_slot_release(struct nest *g, int32_t at) {
  if (nest_grow(g, (void **)&g->spare, &g->spare_room, g->n_spare + 1, sizeof *g->spare)) g->spare[g->n_spare++] = at;
}
