/* gen.c -- what is known of a kernel, and what this encoder makes of it: see gen.h. */
#include "backend/x86/gen.h"

void analyse(struct gen *g) {
  nest_find(nest_of(g));
  if (g->why || g->no_memory) return;
  g->lanes = g->vector_bytes / (g->wide ? 8 : 4);
  g->machine = g->e.evex ? &avx512_machine : &avx2_machine;
  g->n_vregs = __builtin_popcountll(g->machine->registers[IN_VECTORS]);
  nest_place_homes(nest_of(g));
  tiles_find(g);
  turns_find(g);
  short_rows_find(g);
  g->tail_buffer = slot_vector(g, 2);
  g->scratch = slot_scalar(g);
  g->saved = slot_vector(g, 2);
}
