/* codes_loops.h -- the loops of codes.c, for vectors of LANES floats: included once for each instruction set. */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(words) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t NAME(bits) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
enum { NAME(PARTS) = CODES_SIDE / LANES };
#define PARTS NAME(PARTS)

/* Adds to total [rows][CODES_SIDE] the products of blocks side by side: word i of block j at word[j n_words + i]. */
static inline __attribute__((always_inline)) IN_VECTORS void
NAME(blocks)(const uint32_t *word, const float *scale, const float *x, int64_t x_row, int bits, int rows,
             NAME(floats) total[][PARTS]) {
  const int n_words = words_of(bits), n_codes = codes_of_block(bits);
  for (int p = 0; p < PARTS; p++) {
    NAME(bits) w[8];
    if (n_words == 1) w[0] = *(const NAME(bits) *)(word + p * LANES);
    else for (int i = 0; i < n_words; i++) {
      uint32_t lane[LANES];
      for (int j = 0; j < LANES; j++) lane[j] = word[(p * LANES + j) * n_words + i];
      memcpy(&w[i], lane, sizeof w[i]);
    }
    NAME(floats) sum[CODES_ROWS] = { 0 };
    for (int c = 0; c < n_codes; c++) {
      int first = c * bits / 32, shift = c * bits % 32;
      NAME(bits) q = w[first] >> shift;
      if (shift + bits > 32) q |= w[first + 1] << (32 - shift);
      NAME(floats) code = __builtin_convertvector((NAME(words))(q & ((1u << bits) - 1)), NAME(floats));
      for (int r = 0; r < rows; r++) sum[r] += code * *(const NAME(floats) *)(x + r * x_row + c * CODES_SIDE + p * LANES);
    }
    for (int r = 0; r < rows; r++) total[r][p] += sum[r] * *(const NAME(floats) *)(scale + p * LANES);
  }
}

/* rows: of at most CODES_ROWS. word: of whole sides; rest: of the last blocks, with zeros after them; NULL: there are none. */
static inline __attribute__((always_inline)) IN_VECTORS void
NAME(row)(const struct codes_row *w, const float *x, int64_t x_row, int bits, int rows, float out[]) {
  NAME(floats) total[CODES_ROWS][PARTS] = { 0 };
  const int64_t words = CODES_SIDE * words_of(bits), each = CODES_SIDE * codes_of_block(bits);
  for (int64_t v = 0; v < w->n_whole; v++)
    NAME(blocks)(w->word + v * words, w->scale + v * CODES_SIDE, x + v * each, x_row, bits, rows, total);
  if (w->rest) NAME(blocks)(w->rest, w->scale + w->n_whole * CODES_SIDE, x + w->n_whole * each, x_row, bits, rows, total);
  for (int r = 0; r < rows; r++) {
    float side[CODES_SIDE];
    memcpy(side, total[r], sizeof side);
    for (int half = CODES_SIDE / 2; half; half /= 2) for (int i = 0; i < half; i++) side[i] += side[i + half];
    out[r] = side[0];
  }
}

#define OF_BITS(bits)                                                                                            \
  static IN_VECTORS void NAME(row_##bits)(const struct codes_row *w, const float *x, int64_t x_row, int rows, float out[]) {      \
    if (rows == CODES_ROWS) NAME(row)(w, x, x_row, bits, CODES_ROWS, out);                                       \
    else for (int r = 0; r < rows; r++) NAME(row)(w, x + r * x_row, x_row, bits, 1, out + r);                    \
  }
OF_BITS(2) OF_BITS(3) OF_BITS(4) OF_BITS(5) OF_BITS(6) OF_BITS(8)
static row_dots *const NAME(dots)[] = { [2] = NAME(row_2), [3] = NAME(row_3), [4] = NAME(row_4), [5] = NAME(row_5),
                                        [6] = NAME(row_6), [8] = NAME(row_8) };
#undef OF_BITS
#undef PARTS
