/* gpu_attention.h -- attention and its derivatives tile by tile: the entries of kernels that say they are that (kir_attention).
 *
 * A block of threads has 64 or 128 rows of its own and goes through the other side in tiles of 64 rows, which come by cp.async into
 * a stage of shared memory while another is worked on. The first comes together with the own rows.
 *
 *   part     own          tiles          what a tile adds
 *   whole    q            k, v           s = q k', p = exp(s - about the largest so far), y += p v; the sum of p beside
 *   query    q, dy        k, v           p = exp(s - lse), ds = p (dy v' - delta), dq += ds k
 *   key      k, v         q, dy          the same of turned matrices: dv += p' dy, dk += ds' q
 *
 * Scores stand nowhere in memory. Sums are of f32 in the order of the tiles: two runs agree, but the bits are not those of the
 * kernel's text, so WEFT_EXACT does without such kernels. Rows that see nothing are nan, as they are there, and add nothing to
 * derivatives. There are three ways to multiply, which give lanes the same elements of scores and sums:
 *   by groups (gpu_group.c): halves, where the device can; four warps have 64 rows, of which they read no fragments;
 *   by warps: halves by mma, a warp has 16 or 32 rows as fragments in registers;
 *   of f32: each number is two of tf32, and three products by mma are one of f32 up to 2^-21 of it.
 *
 * By warps and of f32 a row of shared memory has 16 bytes more than the elements: the eight rows of a fragment are then in
 * different banks. Where an operand is not aligned to 16 bytes, or has no neighbours along its rows, threads of another entry copy
 * all of them element by element.
 *
 *   gpu_attention.c           the entries: what a block of threads does, from tile to tile
 *   gpu_attention_shape.c     sizes: how many threads, rows and bytes of shared memory
 *   gpu_attention_block.c     which rows a block has, and which tiles these see
 *   gpu_attention_copy.c      operands, from memory to shared memory
 *   gpu_attention_stats.c     lse and delta of rows, which derivatives read
 *   gpu_attention_multiply.c  products of halves, by groups or by warps
 *   gpu_attention_f32.c       products of f32
 *   gpu_attention_mask.c      what rows do not see
 *   gpu_attention_soft.c      exponentials
 *   gpu_attention_store.c     results */
#ifndef WEFT_CUDA_GPU_ATTENTION_H
#define WEFT_CUDA_GPU_ATTENTION_H
#include "backend/cuda/printer.h"

enum { ATTEND_GROUP = 128, ATTEND_TILE = 64 }; /* threads of a group; rows of a tile */
enum { ATTEND_FRAGMENTS = 16 };                /* most fragments of 8 columns that a row of results has */
/* Scores of f32 that become a factor are turned in shared memory: bytes of a row of them, and of all. */
enum { ATTEND_TURN_PITCH = (ATTEND_TILE + 8) * 4, ATTEND_TURN_BYTES = 64 * ATTEND_TURN_PITCH };

struct ptx_operand {
  int buf, n, padded;               /* elements of a row, and rounded up to fragments */
  int pitch, at;                    /* bytes from row to row in shared memory; where it begins, tiles: in a stage */
  int piece;                        /* by groups: bytes from piece to piece */
  const char *base;                 /* of this index of the batch */
  const char *from, *to, *left;     /* what this thread copies next: address, address in shared memory, rows from its own on */
  const char *row_bytes, *step_bytes; /* to the next row; to the next tile */
  const char *plain, *turned;       /* where a lane reads its row of a fragment: of rows along n, or along k; by groups what tells
                                       the tensor cores */
};

struct ptx_attention {
  const struct kir_attention *a;
  enum kir_attention_part part;
  bool is_key, is_grad;
  int n_operands;                   /* of own rows */
  bool by_groups;                   /* wgmma */
  bool is_late;                     /* p is multiplied by its tile together with the scores of the next, while exponentials of those
                                       are computed */
  bool is_aligned;                  /* operands come by chunks of 16 bytes, else element by element */
  bool is_f32;                      /* by three products of tf32 */
  int width;                        /* bytes of an element */
  int m;                            /* fragments of 16 rows a warp has */
  int threads, rows;                /* of a block */
  int stage_bytes, stats_at;
  const char *type;                 /* of mma */
  const char *lane, *warp, *tid, *base;
  const char *stage, *next, *behind; /* where the tile stands that is worked on, the one that is asked for, and the one before */
  const char *has_behind;           /* there is one before */
  const char *own0, *at;            /* the first row of the block, and of the tile; words */
  const char *n_own, *n_across, *band; /* words */
  const char *batch[KIR_ATTENTION_AXES];
  struct ptx_operand own[2], tile[2];
  const char *fragment[2][2][ATTEND_FRAGMENTS / 2][4]; /* of own rows: operand, fragment of rows, step of 16 */
  const char *s[2][ATTEND_TILE / 8][4], *ds[2][ATTEND_TILE / 8][4];
  const char *sum[2][2][ATTEND_FRAGMENTS][4]; /* results: which, fragment of rows, of columns */
  const char *most[2][2], *total[2][2]; /* of rows: about the largest score so far, and the sum */
  const char *low[2][2];            /* of rows: what is added to an exponent of 2; with an added mask what scores are less by */
  const char *lse[2][2], *delta[2][2]; /* of own rows, query */
  const char *limit[2][2];          /* whole, query: columns below it are seen; key: those from it on. This lane's first column is
                                       subtracted already */
  const char *turn;                 /* of f32: where this lane's first scores stand when they become a factor */
  const char *factor[2][ATTEND_TILE / 16][4]; /* by groups: p and ds as halves, two in each */
  const char *less[2][2], *is_level; /* whole: what sums of a row are worth less by; no row of this warp was raised */
  const char *stat;                 /* key: where this lane reads lse and delta of the tile */
  const char *stat_row, *stat_to, *has_stat, *new_lse, *new_delta; /* key: what this thread loads of the next tile */
  const char *mask_row[2][2], *mask_base;
};

static inline int attend_up(int n, int to) { return (n + to - 1) / to * to; } /* to the next multiple */

/* gpu_attention_shape.c */
struct attend_form { int groups, blocks; }; /* groups of a block of threads; blocks that are to find room on a processor, 0: any */
bool attend_is_by_groups(bool by_groups, const struct kir_attention *); /* of those that could be */
struct attend_form attend_form_of(const struct kir_attention *, bool by_groups);
bool attend_is_late(const struct kir_attention *, bool by_groups);
int attend_fragments(const struct kir_attention *, bool by_groups);   /* of 16 rows, a warp's */
int attend_rows(const struct kir_attention *, bool by_groups);        /* of a block of threads */
int attend_row_bytes(const struct kir_attention *, int n, bool by_groups); /* that a row of n elements takes, over all pieces */
int attend_stage_bytes(const struct kir_attention *, bool by_groups);
int attend_own_bytes(const struct kir_attention *, bool by_groups);

/* gpu_attention_block.c */
const char *attend_size_word(struct printer *, int size);
void attend_find_band(struct printer *, struct ptx_attention *);
void attend_find_block(struct printer *, struct ptx_attention *);
void attend_find_tiles(struct printer *, struct ptx_attention *, const char **end); /* where they begin, t->at, and end; words */

/* gpu_attention_copy.c */
void attend_go(struct printer *, const char *dst, const char *index, const char *bytes); /* dst += index bytes; NULL: it stays */
const char *attend_wide(struct printer *, const char *word);          /* 64 bits of it */
const char *attend_base(struct printer *, const struct ptx_attention *, int buf); /* the buffer at this index of the batch */
const char *attend_bytes_along(struct printer *, const struct ptx_attention *, int buf, int axis);
void attend_plan_operands(struct printer *, struct ptx_attention *);
/* n tiles of 64 rows, into the stage (NULL: own rows, which have none); the operand is at the next ones then. */
void attend_copy(struct printer *, const struct ptx_attention *, struct ptx_operand *, const char *stage, int n);

/* gpu_attention_stats.c: what a derivative by queries loads of its own rows, and one by keys of each tile. */
struct attend_stats { const char *lse[2], *delta[2]; };               /* of a lane's two rows */
void attend_load_stats(struct printer *, struct ptx_attention *);     /* query */
void attend_plan_stats(struct printer *, struct ptx_attention *);     /* key: before all, .. */
void attend_load_next_stats(struct printer *, const struct ptx_attention *); /* .. those of the tile that is asked for, .. */
void attend_store_stats(struct printer *, const struct ptx_attention *, const char *stage); /* .. into its stage, .. */
void attend_plan_stat_columns(struct printer *, struct ptx_attention *);
struct attend_stats attend_stats_of(struct printer *, const struct ptx_attention *, int j); /* .. and of its fragment j */

/* gpu_attention_multiply.c */
const char *attend_row_of_lane(struct printer *, const struct ptx_attention *, const struct ptx_operand *, int a, int b);
void attend_load_own(struct printer *, struct ptx_attention *, int k); /* by warps: fragments of own rows */
const char *attend_pack(struct printer *, const struct ptx_attention *, const char *low, const char *high); /* two halves */
void attend_wait_but(struct printer *, const struct ptx_attention *, int n); /* by groups, for all but n of what was begun */
/* x = own rows k times the rows of tile k, turned; by groups it is begun */
void attend_scores(struct printer *, const struct ptx_attention *, int k, const char *x[2][ATTEND_TILE / 8][4]);
void attend_add_product(struct printer *, const struct ptx_attention *, const char *x[2][ATTEND_TILE / 8][4], int k,
                        const char *sum[2][ATTEND_FRAGMENTS][4]);      /* sum += x times tile k, not by groups */
void attend_set_factor(struct printer *, const struct ptx_attention *, int which, const char *x[ATTEND_TILE / 8][4]);
void attend_group_product(struct printer *, const struct ptx_attention *, int which, int k, const char *stage,
                          const char *const sum[ATTEND_FRAGMENTS][4]);

/* gpu_attention_f32.c */
void attend_plan_turn(struct printer *, struct ptx_attention *);
const char *attend_place_of_lane(struct printer *, const struct ptx_attention *, const struct ptx_operand *, bool is_own,
                                 bool is_turned);
void attend_scores_of_f32(struct printer *, const struct ptx_attention *, int k, const char *x[ATTEND_TILE / 8][4]);
void attend_product_of_f32(struct printer *, const struct ptx_attention *, const char *x[ATTEND_TILE / 8][4], int k,
                           const char *sum[ATTEND_FRAGMENTS][4]);

/* gpu_attention_mask.c */
const char *attend_row_index(struct printer *, const struct ptx_attention *, int i, int h); /* of fragment i, half h */
const char *attend_first_column(struct printer *, const struct ptx_attention *);            /* of this lane */
void attend_plan_rows(struct printer *, struct ptx_attention *);
void attend_mask_scores(struct printer *, const struct ptx_attention *, const char *x[2][ATTEND_TILE / 8][4]);
const char *attend_float(struct printer *, float);                          /* as an operand */
float attend_exponent(const struct printer *, const struct ptx_attention *); /* a score times this is an exponent of 2 */
bool attend_adds_mask(const struct printer *, const struct ptx_attention *); /* scores may be as low as numbers are */

/* gpu_attention_soft.c */
void attend_over_quad(struct printer *, const char *x, const char *op); /* x = all of the four lanes that share a row */
void attend_soft(struct printer *, const struct ptx_attention *);
void attend_lower_sums(struct printer *, const struct ptx_attention *);
void attend_soft_again(struct printer *, const struct ptx_attention *);
void attend_soft_derivative(struct printer *, const struct ptx_attention *);

void attend_store_results(struct printer *, const struct ptx_attention *); /* gpu_attention_store.c */

#endif
