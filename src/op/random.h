/* random.h -- what the families of random draws share: a key's words at the places of an array, parameters that were looked at.
 *
 * A draw is a function of a key, the place of an element and nothing else, written with elementwise operations. So it is
 * computed where it is used, is the same on every back end, and maps, loops and functions need no rule for it. */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H
#include "op/operand.h"

enum { RANDOM_PARAMETERS = 3 };
/* any; >= 0; > 0; [0, 1]; (0, 1]; to 2^53; >= 0 and > 0, and finite */
enum range { REAL, FINITE_SCALE, ABOVE_0, PROBABILITY, CHANCE, COUNT, RATE, SHAPE };

struct parameter { const char *name; enum range range; double otherwise; }; /* what NULL means; nan: nothing */

struct draw {
  const char *fn;
  weft_array *k0, *k1;                  /* the halves of the key: 0-d u32 */
  weft_array *places, *n;               /* u32: the number of each draw, [n]; how many there are */
  weft_array *n_draws;                  /* the same, 0-d */
  weft_array *p[RANDOM_PARAMETERS];     /* in `in`, 0-d or of the shape of the draws; nan where they make no sense */
  weft_dtype as, in;                    /* of the result; what it is computed in: f32 or f64 */
  int rank;
  dim dims[WEFT_RANK_MAX], count;
};

enum drawn { REALS, WHOLES, TRUTHS };   /* floats; whole numbers, computed in f64, i32 unless asked otherwise; bools */
struct distribution {
  const char *fn;
  enum drawn of;
  int n;
  struct parameter p[RANDOM_PARAMETERS];
  weft_array *(*draw)(struct draw *);
};
weft_array *random_drawn(const struct distribution *, weft_array *key, weft_array *like, weft_array *const p[]);

/* Opening by hand: the key looked at, the shape given. like: it tells sizes that nothing else does, or NULL. false: *bad. */
bool random_open(struct draw *, const char *fn, weft_array *key, weft_array *like, int rank, const dim dims[], weft_array **bad);
weft_array *random_keys(const char *fn, weft_array *key, weft_array *like, dim n); /* u32 [n,2], as weft_random_split */
/* Why a parameter that is a number is not in its range; NULL: it is, or is an array. */
struct failure *random_number_wrong(const char *fn, const struct parameter *, const struct node *);
bool random_is_number(weft_array *p, double *x);                  /* whether a parameter is a number that was written, and which */
/* A bad array if parameters i and i + 1 are numbers, and the first is above the second; else NULL. */
weft_array *random_unordered(const struct draw *, int i, const char *first, const char *second);
weft_array *random_where_in(enum range, weft_array *p);           /* p, or nan where it is not in the range */
weft_array *random_shaped(const struct draw *, weft_array *flat);  /* [n] in the shape of the draws */
weft_array *random_word(weft_dtype u32_or_u64, weft_array *k0, weft_array *k1, weft_array *i, weft_array *n); /* word i of n */

/* Draw j of the m that each element takes, independent of each other: row j of an array [m, n]. */
struct draw random_part(const struct draw *, int j, int m);
weft_array *random_unit(const struct draw *, int j, int m);    /* [0, 1): f32 in steps of 2^-32 below 2^-8, f64 of 2^-53 */
weft_array *random_open_unit(const struct draw *, int j, int m); /* (0, 1) */
weft_array *random_normal(const struct draw *, int j, int m);
weft_array *random_exponential(const struct draw *, int j, int m);

/* The same from words that are given: u32 for f32, u64 for f64. */
weft_array *unit_of(weft_array *word, weft_dtype in);
weft_array *open_unit_of(weft_array *word, weft_dtype in);
weft_array *normal_of(weft_array *word, weft_dtype in);

/* ---- Loops of lanes (random_lanes.c) ---- */

/* body of arrays x that broadcast, written for one element of each, 0-d, and mapped; n at most 8. */
weft_array *lanes_map(const char *fn, int n, weft_array *const x[], weft_array *body(const void *, weft_array *const x[]),
                      const void *ctx);

/* Attempts of each element by itself, at most so many: from so many words, a value and whether it is taken. After the last the
 * value is taken all the same; `most` makes that less likely than 2^-64. */
struct rejection {
  int n_words, most;
  weft_array *(*attempt)(const struct draw *, weft_array *const word[], weft_array *const p[], weft_array **value);
};
weft_array *random_rejected(const struct draw *, const struct rejection *, int n, weft_array *const p[]);

/* Gamma draws of shape a, scale 1 (random_gamma.c), with derivatives: draw j of m. is_log: their logarithm, which does not
 * underflow. */
weft_array *random_gamma(const struct draw *, weft_array *a, int j, int m, bool is_log);

/* Successes among n trials (random_whole.c), in f64. */
weft_array *random_binomial(const struct draw *, weft_array *n, weft_array *p);

#define RANDOM1(id, of, name_a, range_a, or_a)                                                                      \
  static weft_array *draw_##id(struct draw *);                                                                         \
  weft_array *weft_random_##id(weft_array *key, weft_array *like, weft_array *a) {                                     \
    static const struct distribution d = { "weft_random_" #id, of, 1, { { name_a, range_a, or_a } }, draw_##id };   \
    return COMPOSED(random_drawn(&d, key, like, (weft_array *[]){ a }));                                               \
  }                                                                                                                    \
  static weft_array *draw_##id(struct draw *d)
#define RANDOM2(id, of, name_a, range_a, or_a, name_b, range_b, or_b)                                               \
  static weft_array *draw_##id(struct draw *);                                                                         \
  weft_array *weft_random_##id(weft_array *key, weft_array *like, weft_array *a, weft_array *b) {                      \
    static const struct distribution d = {                                                                             \
      "weft_random_" #id, of, 2, { { name_a, range_a, or_a }, { name_b, range_b, or_b } }, draw_##id                \
    };                                                                                                                 \
    return COMPOSED(random_drawn(&d, key, like, (weft_array *[]){ a, b }));                                            \
  }                                                                                                                    \
  static weft_array *draw_##id(struct draw *d)
#define RANDOM3(id, of, name_a, range_a, or_a, name_b, range_b, or_b, name_c, range_c, or_c)                        \
  static weft_array *draw_##id(struct draw *);                                                                         \
  weft_array *weft_random_##id(weft_array *key, weft_array *like, weft_array *a, weft_array *b, weft_array *c) {       \
    static const struct distribution d = {                                                                             \
      "weft_random_" #id, of, 3, { { name_a, range_a, or_a }, { name_b, range_b, or_b }, { name_c, range_c, or_c } }, \
      draw_##id                                                                                                        \
    };                                                                                                                 \
    return COMPOSED(random_drawn(&d, key, like, (weft_array *[]){ a, b, c }));                                         \
  }                                                                                                                    \
  static weft_array *draw_##id(struct draw *d)

#endif
