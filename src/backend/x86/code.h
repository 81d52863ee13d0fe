/* code.h -- a compiled kernel: executable pages, and what a launch must put into the frame. */
#ifndef WEFT_X86_CODE_H
#define WEFT_X86_CODE_H
#include "backend/x86/gen.h"

struct code_buffer { int32_t at; int rank, bytes; bool is_bound; }; /* address at `at`, strides in bytes behind it */
struct code_row { int32_t pointer; int bytes; int first, n; bool is_outer; }; /* terms of its length */
struct code_shape { int bytes, rank; int first[BACKEND_RANK], n[BACKEND_RANK]; }; /* of an element; terms of its dims */
struct code_local { int32_t at; struct code_shape shape; };
struct code_term { int64_t coef; int n, at[KIR_FACTORS]; };  /* factors: offsets in the frame */

struct code_mark {           /* a statement, for the listing */
  uint32_t at;
  uint8_t kind, op, dtype;
  int out, in[3], buf;
};

struct code {
  struct arena *arena;
  uint8_t *pages;
  struct debug *debug;
  size_t n_code, pool_at, total;
  int frame_bytes, n_sizes, n_values, n_bufs, n_rows, n_locals, n_terms, n_outs;
  struct code_buffer *bufs;
  struct code_row *rows;
  struct code_local *locals;
  struct code_shape *outs;   /* if stores may go around the caches: the outputs */
  struct code_term *terms;
  bool is_avx512;
  int lanes;
  const char *name;
  int n_marks, n_names;
  struct code_mark *marks;
  const char **names;        /* by value; NULL: a temporary */
  const char **buf_names;
};

void code_list(const struct code *, struct text *);
void code_note_marks(struct code *, const struct gen *); /* copies what the listing will need */

#endif
