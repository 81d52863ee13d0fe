/* demands.c -- what every operation and public function must have before it is done, asked for by name: a value, a derivative
 * where there is a rule, a map, the plain evaluator, random programs that use it; a test that calls it. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include "every_graph.h"
#include "every_op.h"
#include "graph/function.h"
#include "op/loop.h"
#include "program_kinds.h"

/* ---- which ops a graph has, bodies included ---- */

enum { OPS = 512 };
static bool seen[OPS];

static int number_of(const struct op *op) {
  int i = 0;
  while (op_table[i] && op_table[i] != op) i++;
  return i;
}

static void look(int n, struct node *const target[]) {
  struct node_list l = { 0 };
  graph_lock();
  bool ok = walk(&l, n, target, NULL);
  graph_unlock();
  for (int i = 0; ok && i < l.n; i++) {
    const struct node *x = l.node[i];
    seen[number_of(x->op)] = true;
    if (x->op == &op_loop) {
      const struct loop *b = loop_of(x);
      look(b->n_carry, b->next), look(b->n_all, b->all);
      if (b->until) look(1, &b->until);
    }
    if (x->op == &op_call) look(((const struct call_attr *)x->attr)->function->n_out, ((const struct call_attr *)x->attr)->function->out);
  }
  node_list_free(&l);
}

static bool is_any_of(const char *name, const char *const list[]) {
  for (int k = 0; list[k]; k++) if (!strcmp(list[k], name)) return true;
  return false;
}

/* ---- ops ---- */

TEST(every_op_is_known_to_the_plain_evaluator) {
  static const char *const in_plans_only[] = { "part", "pair", NULL };
  for (int i = 0; op_table[i]; i++)
    if (!plain_knows(op_table[i]) && !is_any_of(op_table[i]->name, in_plans_only))
      test_fail(__FILE__, __LINE__, "%s: test/every_plain.c wants its value in plain C (and test/every_graph.c its kind, if it is new)", op_table[i]->name);
  plain_end();
}

TEST(every_op_with_a_rule_has_a_derivative_that_is_checked) {
  static const char *const elsewhere[] = { "scale", "barrier", "alias", "depends", "real", "imag", "conj", "complex", "gamma_draw", "log_gamma_draw", "later", NULL }; /* later.c rules.c transforms.c complex.c distributions.c */
  weft_scope *s = weft_scope_open();
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < every_derivatives(); i++) {
    const char *name;
    const double *x;
    array_function f = every_derivative(i, &name, &x);
    look(1, &f(f64s(6, x))->node);
  }
  weft_scope_discard(s);
  for (int i = 0; op_table[i]; i++) {
    const struct op *op = op_table[i];
    if ((op->partial || op->vjp || op->jvp) && !seen[number_of(op)] && !is_any_of(op->name, elsewhere))
      test_fail(__FILE__, __LINE__, "%s has a derivative: test/every_op.c wants a function of it among D(..) and a row in `derivatives`", op->name);
  }
}

TEST(every_op_is_in_random_programs) {
  enum { PROGRAMS = 4000 };
  static const char *const in_plans_or_gradients[] = { "part", "pair", "bad", "scale", "barrier", "host", "gammainc_da", "adjugate", "cofactors", "later", "turns", NULL }; /* the last two: in functions of open sizes */
  static struct program p;
  memset(seen, 0, sizeof seen);
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
    struct build *b = calloc(1, sizeof *b);
    weft_scope *s = weft_scope_open();
    program_make(&p, seed);
    *b = (struct build){ .p = &p };
    if (program_build(b)) for (int k = 0; k < p.blocks[0].n_outs; k++) look(1, &b->at[p.blocks[0].out[k]][0]->node);
    weft_scope_discard(s);
    program_free(&p);
    free(b);
  }
  plain_end();
  for (int k = 0; program_kinds[k]; k++)
    if (!program_used(program_kinds[k]->name))
      test_fail(__FILE__, __LINE__, "%s is used by none of %d random programs: its row in test/program_rows.h chooses nothing", program_kinds[k]->name, PROGRAMS);
  for (int i = 0; op_table[i]; i++)
    if (!seen[number_of(op_table[i])] && !is_any_of(op_table[i]->name, in_plans_or_gradients))
      test_fail(__FILE__, __LINE__, "%s is in none of %d random programs: test/program_rows.h wants a row", op_table[i]->name, PROGRAMS);
}

/* ---- public functions ---- */

TEST(the_library_says_its_version) { EXPECT_INT(weft_version(), WEFT_VERSION); }

static char *file_text(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 20);
  if (text && fread(text, 1, (1 << 20) - 1, f) == 0) text[0] = 0;
  fclose(f);
  return text;
}

/* The C files of test and test/scenes, as one text. */
static char *all_tests(void) {
  static const char *const folders[] = { TEST_FOLDER, TEST_FOLDER "/scenes" };
  char *all = calloc(1, 1), path[1024];
  for (int k = 0; k < 2; k++) {
    DIR *d = opendir(folders[k]);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
      size_t n = strlen(e->d_name);
      if (n < 3 || strcmp(e->d_name + n - 2, ".c")) continue;
      snprintf(path, sizeof path, "%s/%s", folders[k], e->d_name);
      char *text = file_text(path);
      size_t before = strlen(all);
      if (text && (all = realloc(all, before + strlen(text) + 1))) strcpy(all + before, text);
      free(text);
    }
    if (d) closedir(d);
  }
  return all;
}

static bool has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += n)
    if (!isalnum((unsigned char)at[n]) && at[n] != '_') return true;
  return false;
}

/* Whether what stands from `from` on, before `to`, has the text. */
static bool has_text(const char *from, const char *to, const char *text) {
  const char *at = strstr(from, text);
  return at && at < to;
}

/* Whether the declaration makes something of arrays: it gives an array, a loop, a choice or a function, fills a list of arrays, or
 * says something of a loop or choice that is open. */
static bool is_building(const char *name, const char *parameters) {
  static const char *const gives[] = { "weft_array *", "weft_loop *", "weft_cond *", "weft_function *", "weft_array    *", "weft_loop  *", "weft_cond  *", NULL };
  static const char *const takes[] = { "weft_array **", "(weft_loop *", "(weft_cond *", NULL };
  const char *end = strchr(parameters, ';'), *at = parameters;
  for (int k = 0; gives[k]; k++) if (!strncmp(name - strlen(gives[k]), gives[k], strlen(gives[k]))) return true;
  for (int k = 0; end && takes[k]; k++) if (has_text(parameters, end, takes[k])) return true;
  while (end && (at = strstr(at, "weft_array *")) != NULL && at < end) { /* weft_array *y[], but not weft_array *const x[] */
    at += strlen("weft_array *");
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    if (length && strncmp(at, "const", length) && at[length] == '[') return true;
  }
  return false;
}

/* The next public function of the header that is declared, or mentioned as a call; NULL: there is none. */
static char *next_function(char *at, char name[96], bool *builds) {
  while ((at = strstr(at, "weft_")) != NULL) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    *builds = at[length] == '(' && is_building(at, at + length);
    snprintf(name, 96, "%.*s", (int)(length < 95 ? length : 95), at);
    at += length;
    if (*at == '(' && at[-1] != '_' && strcmp(name, "weft_name") && strcmp(name, "weft_random_name")) return at;
  }
  return NULL;
}

/* The next row of a list of the header, X(name, ..) or X2(name, ..), by its own name; NULL: there is none. */
static char *next_row(char *at, char name[96]) {
  while ((at = strstr(at, "\n  X")) != NULL) {
    at += strlen("\n  X");
    if (isdigit((unsigned char)*at)) at++;
    if (*at++ != '(') continue;
    size_t length = strcspn(at, ",");
    return snprintf(name, 96, "%.*s", (int)(length < 95 ? length : 95), at), at;
  }
  return NULL;
}

/* By name, so that whoever adds one is told. The list is of those that make nothing new. */
TEST(every_public_function_that_builds_is_counted_in_random_programs) {
  static const char *const builds_nothing[] = { "weft_operands", "weft_function_own", "weft_function_arity", NULL };
  char *header = file_text(TEST_FOLDER "/../include/weft.h"), name[96], full[128], drawn[128];
  int n = 0, n_rows = 0;
  bool builds;
  if (!header) return test_skip("the sources are not here");
  for (char *at = strstr(header, "WEFT_VERSION"); (at = next_function(at, name, &builds)) != NULL;) {
    if (!builds || is_any_of(name, builds_nothing)) continue;
    n++;
    if (program_used(name) < 0) test_fail(__FILE__, __LINE__, "%s is counted in no random program: test/program_rows.h wants a row, or test/program_build.c a name", name);
  }
  for (char *at = header; (at = next_row(at, name)) != NULL; n_rows++) {
    snprintf(full, sizeof full, "weft_%s", name), snprintf(drawn, sizeof drawn, "weft_random_%s", name);
    if (program_used(full) < 0 && program_used(drawn) < 0) test_fail(__FILE__, __LINE__, "%s is counted in no random program: test/program_kinds.c wants its list", full);
  }
  EXPECT(n > 150 && n_rows > 150);
  free(header);
}

TEST(every_public_function_is_called_by_a_test) {
  char *header = file_text(TEST_FOLDER "/../include/weft.h"), *tests = all_tests();
  if (!header || !tests) {
    free(header), free(tests);
    return test_skip("the sources are not here");
  }
  int n = 0;
  char name[96];
  bool builds;
  for (char *at = strstr(header, "WEFT_VERSION"); (at = next_function(at, name, &builds)) != NULL; n++)
    if (!has_word(tests, name)) test_fail(__FILE__, __LINE__, "%s of include/weft.h: no file of test/ calls it", name);
  EXPECT(n > 100);
  free(header), free(tests);
}

/* Rows of the lists in weft.h: a value in test/every_op.c, or a call by name somewhere. */
TEST(every_public_row_has_a_value_that_is_checked) {
  char *tests = all_tests(), name[96];
  if (!tests || !*tests) {
    free(tests);
    return test_skip("the sources are not here");
  }
#define ROW(id, doc)                                                                                                       \
  snprintf(name, sizeof name, "weft_%s", #id);                                                                             \
  if (!every_row_named(#id) && !has_word(tests, name)) test_fail(__FILE__, __LINE__, "weft_%s: test/every_op.c wants a row in `calls`", #id);
  WEFT_UNARY(ROW) WEFT_BINARY(ROW) WEFT_REDUCE(ROW) WEFT_ALONG(ROW) WEFT_ACTIVATION(ROW)
#undef ROW
  free(tests);
}
