/* machine.h -- a machine for PTX, as far as weft prints it: modules are parsed, entries run thread by thread on host memory.
 *
 * It is a driver for machines without a GPU (libcuda.c): slow, but every access is looked at, threads run in an order of
 * chance between the points where they meet, and whoever waits for somebody who will not come is told so. Results have the bits
 * that PTX promises. */
#ifndef WEFT_TEST_MACHINE_H
#define WEFT_TEST_MACHINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum type { T_NONE, T_PRED, T_U8, T_S8, T_B8, T_U16, T_S16, T_B16, T_F16, T_U32, T_S32, T_B32, T_F32, T_U64, T_S64, T_B64, T_F64 };
static inline int type_bytes(enum type t) { return t < T_U8 ? 1 : t < T_U16 ? 1 : t < T_U32 ? 2 : t < T_U64 ? 4 : 8; }

enum arg_kind { ARG_NONE, ARG_REG, ARG_NUMBER, ARG_SPECIAL, ARG_SHARED, ARG_GLOBAL, ARG_LOCAL, ARG_PARAM };
enum special { TID_X, TID_Y, TID_Z, NTID_X, NTID_Y, NTID_Z, CTAID_X, CTAID_Y, CTAID_Z, NCTAID_X, NCTAID_Y, NCTAID_Z, LANEID,
               NSMID, SPECIALS };
struct arg { enum arg_kind kind; int reg; uint64_t number; }; /* number: also of a special; an offset; the address of a global */

struct instruction {
  const char *name;           /* the word it begins with, without what follows the first '.' */
  int op;                     /* by place in machine.c's table */
  enum type t, from;          /* from: of cvt */
  char how[12], round[8];     /* a word of its own kind: eq, lo, down, and .. */
  bool is_shared, is_param, is_volatile; /* memory */
  bool is_nan, has_hint;      /* min.NaN; for a cache, the last operand */
  int guard;                  /* -1: always */
  bool unless;
  int width;                  /* of vectors: .v2 2, .v4 4 */
  struct arg *to, in[12];     /* to: more than one of a vector; allocated */
  int n_to, n_in;
  int target;                 /* of a jump */
  int line;
};

/* What most instructions are, two in a line of the cache: threads go through a kernel one after the other, and its text is longer than
 * the cache. Operands are places of registers; numbers have places behind those. */
struct quick {
  uint8_t code, then;         /* by place in machine.c's tables; 0: none of these, see struct instruction; then: behind a guard */
  uint8_t how, more;          /* of setp: how it is joined with in[2]; of cvt: types; of vectors: bytes */
  bool unless;
  int guard, to, target, in[3];
};
struct number { struct arg a; enum type t; }; /* t: of a parameter */

struct entry {
  char name[200];
  int n_params, n_regs, n_instructions;
  size_t local_bytes;         /* of a thread */
  struct instruction *i;
  struct quick *quick;        /* of each instruction */
  struct number *numbers;     /* what operands of those are beside registers */
  int n_numbers, n_own;       /* n_own: so many come first that each thread has of its own */
  bool meets;                 /* its threads wait for each other */
  int most_threads;           /* of a block; 0: not said */
  size_t shared_bytes;        /* declared, of what it names */
};

struct module {
  int n_entries;
  struct entry *entries;
  size_t shared_bytes;        /* declared; what is .extern begins there */
  int n_tables;
  struct table { char name[100]; size_t bytes; void *data; } *tables;
};

/* text.c. NULL: why says what is wrong. */
struct module *module_parse(const char *ptx, char *why, size_t room);
void module_free(struct module *);

/* Whether kernels may touch memory; if so, all of the stretch around it, too. */
struct stretch { uint64_t from, bytes; };
typedef bool may_touch(uint64_t at, int bytes, struct stretch *around);

/* machine.c. NULL, or what went wrong. Params are read as 8 bytes each. One at a time. */
const char *machine_run(const struct module *, const struct entry *, const unsigned grid[3], const unsigned block[3],
                        size_t shared_bytes, void **params, may_touch *);
int machine_op(const char *name); /* -1: there is none */
const char *machine_name(int op);
void machine_prepare(struct entry *); /* once all of its instructions are read */

#endif
