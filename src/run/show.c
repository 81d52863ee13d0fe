/* show.c -- looking inside: graphs, plans and kernels as text. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/mem.h"
#include "base/shelf.h"
#include "base/text.h"
#include "graph/dtype.h"
#include "graph/function.h"
#include "graph/shape.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/machine.h"
#include "run/pool.h"
#include "run/show.h"

/* ---- graphs ---- */

static bool stops(const struct node *n) { return n->op->kind == OP_LEAF || atomic_load(&n->state) == NODE_READY; }

static void name(const struct node *n, struct text *t) {
  weft_dtype d = (weft_dtype)n->dtype;
  if (n->op == &op_scalar) text_addf(t, "#%llx:%s", (unsigned long long)scalar_bits(n, d), weft_dtype_name(d));
  else text_addf(t, "%%%d", n->slot);
}

static void graph_line(const struct node *n, struct text *t) {
  struct shape_text s;
  if (n->op == &op_scalar) return;
  text_addf(t, "%%%d = %s(", n->slot, stops(n) && n->op->kind != OP_LEAF ? "value" : n->op->name);
  for (int k = 0; k < (stops(n) ? 0 : n->n_in); k++) {
    if (k) text_add(t, ", ");
    name(n->in[k], t);
  }
  text_addf(t, ") : %s%s\n", weft_dtype_name((weft_dtype)n->dtype), shape_show(n, &s));
}

static void dot_line(const struct node *n, struct text *t) {
  struct shape_text s;
  text_addf(t, "  n%d [label=\"%s\\n%s%s\"];\n", n->slot, n->op->name, weft_dtype_name((weft_dtype)n->dtype), shape_show(n, &s));
  for (int k = 0; k < (stops(n) ? 0 : n->n_in); k++) text_addf(t, "  n%d -> n%d;\n", n->in[k]->slot, n->slot);
}

static struct failure *show_graph(int n, struct node *const target[], bool as_dot, struct text *t) {
  struct node_list l;
  graph_lock();
  if (!walk(&l, n, target, stops)) return graph_unlock(), fail(WEFT_ERR_MEMORY, 0, "weft_show: out of memory");
  if (as_dot) text_add(t, "digraph weft {\n");
  for (int i = 0; i < l.n; i++) (as_dot ? dot_line : graph_line)(l.node[i], t);
  if (as_dot) text_add(t, "}\n");
  node_list_free(&l);
  graph_unlock();
  return NULL;
}

/* ---- plans ---- */

void store_show(const struct schedule *s, int i, struct text *t) {
  const struct store *x = &s->store[i];
  if (x->leaf >= 0) text_addf(t, "leaf%d", x->leaf);
  else if (x->is_output) text_addf(t, "out%d", i);
  else text_addf(t, "tmp@%lld", (long long)x->offset);
}

/* What the GPU's printer makes of a kernel, whether there is a GPU or not. */
static void show_ptx(const struct compiled *c, struct text *t) {
  const char *why = "";
  if (!cuda_print(c->kernel, &c->shape, t, &why))
    text_addf(t, "// %s: no PTX: %s\n", c->kernel->name, *why ? why : "out of memory");
}

static void show_sass(const struct compiled *c, struct text *t) {
  text_addf(t, "// %s\n", c->kernel->name);
  if (c->is_on_device && c->backend->show_machine_code) c->backend->show_machine_code(c->code, t);
  else text_add(t, "// no machine code shown: it was not compiled for a GPU\n");
}

void plan_show(const struct plan *p, const char *what, struct text *t) {
  bool is_plan = !strcmp(what, "plan"), is_sass = !strcmp(what, "sass");
  if (is_plan) text_addf(t, "%d steps, %lld bytes at the same time, %lld of them to work in\n", p->schedule->n_steps,
                         (long long)plan_peak(p, eval_threads()), (long long)plan_scratch(p, eval_threads()));
  for (int i = 0; i < p->schedule->n_steps; i++) {
    const struct compiled *c = p->code[i];
    const struct step_kind *kind = p->schedule->step[i].kind;
    if (is_plan) kind->show(p, i, t);
    else if (!c && p->body[i]) plan_show(p->body[i], what, t);
    else if (!c && kind->show_code && (is_sass || !strcmp(what, "ptx"))) kind->show_code(p, i, is_sass, t);
    else if (!c) continue;
    else if (!strcmp(what, "asm")) {
      if (c->backend->show) c->backend->show(c->code, t);
    } else if (!strcmp(what, "ptx")) show_ptx(c, t);
    else if (is_sass) show_sass(c, t);
    else text_add(t, c->text);
  }
}

static const char *const of_plans[] = { "plan", "kernels", "asm", "ptx", "sass" };
enum { OF_PLANS = sizeof of_plans / sizeof *of_plans };

static bool is_of_plans(const char *what) {
  bool yes = false;
  for (int i = 0; i < OF_PLANS; i++) yes |= !strcmp(what, of_plans[i]);
  return yes;
}

/* WEFT_SHOW=kernels,plan: written to standard error when a plan is made. */
void plan_show_if_asked(const struct plan *p) {
  const char *words = getenv("WEFT_SHOW");
  struct text t = { 0 };
  if (!words || !*words) return;
  for (int i = 0; i < OF_PLANS; i++) if (strstr(words, of_plans[i])) plan_show(p, of_plans[i], &t);
  for (size_t at = 0; at < t.n;) {
    ssize_t n = write(2, t.s + at, t.n - at);
    if (n <= 0) break;
    at += (size_t)n;
  }
  text_free(&t);
}

/* ---- values ---- */

static void show_number(weft_dtype d, const uint8_t *p, struct text *t);

/* 1-2i; a plus stands before whatever has no minus, nan too. */
static void show_complex(weft_dtype part, const uint8_t *p, struct text *t) {
  size_t size = weft_dtype_bytes(part);
  show_number(part, p, t);
  if (!(p[2 * size - 1] & 0x80)) text_add(t, "+");
  show_number(part, p + size, t);
  text_add(t, "i");
}

static void show_number(weft_dtype d, const uint8_t *p, struct text *t) {
  if (dtype_is_complex(d)) return show_complex(dtype_part(d), p, t);
  uint64_t bits = 0;
  size_t above = 64 - 8 * weft_dtype_bytes(d); /* bits that the number does not have */
  memcpy(&bits, p, weft_dtype_bytes(d));
  if (dtype_is_float(d)) text_number(t, dtype_decode(d, bits), d == WEFT_F64 ? 17 : 9);
  else if (d == WEFT_BOOL) text_add(t, bits ? "true" : "false");
  else if (dtype_is_signed(d)) text_addf(t, "%lld", (long long)(int64_t)(bits << above) >> above);
  else text_addf(t, "%llu", (unsigned long long)bits);
}

static void show_elements(const struct node *n, const uint8_t **p, int axis, struct text *t) {
  if (axis == n->rank) {
    show_number((weft_dtype)n->dtype, *p, t);
    *p += weft_dtype_bytes((weft_dtype)n->dtype);
    return;
  }
  text_add(t, "[");
  for (int64_t i = 0; i < n->dims[axis]; i++) {
    if (i) text_add(t, axis == n->rank - 1 ? ", " : ",\n ");
    show_elements(n, p, axis + 1, t);
  }
  text_add(t, "]");
}

/* Whether the text of an array would have too many rows; those of one without elements count too. */
static bool is_long(const struct node *n) {
  int64_t rows = 1, most = 1000000;
  for (int k = 0; k < n->rank && n->dims[k]; rows *= n->dims[k++]) if (n->dims[k] > most / rows) return true;
  return false;
}

static struct failure *show_value(struct node *n, struct text *t) {
  struct failure *f = NULL;
  struct shape_text s;
  bool is_known_long = node_is_known(n) && is_long(n); /* then there is no need to compute it */
  if (!is_known_long && eval_nodes(1, &n, &(struct eval_options){ .fn = "weft_show" }, &f)) return f;
  dim count = dim_count(n->rank, n->dims);
  if (!dim_is_known(count)) return fail(WEFT_ERR_NO_VALUE, n->origin, "weft_show: the size is not known");
  if (is_long(n)) return fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_show: %s is too long to show", shape_show(n, &s));
  size_t bytes = (size_t)count * weft_dtype_bytes((weft_dtype)n->dtype);
  uint8_t *data = mem_alloc(bytes);
  const uint8_t *p = data;
  if (!data) return fail(WEFT_ERR_MEMORY, n->origin, "weft_show: out of memory");
  if (value_copy(n, data, &f) == WEFT_OK) show_elements(n, &p, 0, t);
  text_add(t, "\n");
  mem_free(data);
  return f;
}

/* ---- the public calls ---- */

static const char *kept(struct text *t, struct failure *f) {
  struct weft_scope *s = scope_current();
  const char *out = "";
  if (!f && t->failed) f = fail(WEFT_ERR_MEMORY, 0, "weft_show: out of memory");
  if (!f && s && !s->texts) s->texts = arena_new();
  if (!f && s && s->texts) out = arena_text(s->texts, text_of(t));
  else if (f && s) {
    failure_report(f);
    if (s->texts || (s->texts = arena_new())) out = arena_text(s->texts, failure_message(f));
  }
  failure_release(f);
  text_free(t);
  return out ? out : "";
}

/* What is kept so that it need not be made again. */
static void show_caches(struct text *t) {
  struct shelf_figures f = shelf_figures();
  text_addf(t, "plans: %lld bytes of %lld\n", (long long)plan_table_bytes(), (long long)PLAN_TABLE_BYTES);
  text_addf(t, "kernels compiled: %lld\n", (long long)compiled_count());
  text_add(t, "machine code of GPU kernels: ");
  if (!shelf_folder(t)) text_add(t, "no folder (WEFT_CACHE)");
  text_addf(t, ", %lld entries, %lld bytes of %lld; found %lld, missed %lld\n", (long long)f.entries, (long long)f.bytes,
            (long long)f.most_bytes, (long long)f.found, (long long)f.missed);
}

static struct failure *show_nodes(int n, struct node *const node[], const char *what, struct text *t) {
  struct failure *f = NULL;
  if (!strcmp(what, "caches")) return show_caches(t), NULL;
  if (!strcmp(what, "graph") || !strcmp(what, "dot")) return show_graph(n, node, what[0] == 'd', t);
  if (!strcmp(what, "value")) {
    for (int i = 0; !f && i < n; i++) f = show_value(node[i], t);
    return f;
  }
  if (!is_of_plans(what))
    return fail(WEFT_ERR_ARG, scope_origin(),
                "weft_show: \"%s\" is none of value, graph, dot, plan, kernels, asm, ptx, sass, caches", what);
  struct plan *p = eval_plan_asked(n, node, &f);
  if (p) plan_show(p, what, t);
  plan_release(p);
  return f;
}

const char *weft_show(int n, weft_array *const a[], const char *what) {
  struct text t = { 0 };
  struct node **node = n >= 0 ? mem_alloc(sizeof *node * (size_t)(n + 1)) : NULL;
  struct failure *f = n < 0 || !what ? fail(WEFT_ERR_ARG, scope_origin(), "weft_show: nothing to show")
                    : node ? NULL : fail(WEFT_ERR_MEMORY, scope_origin(), "weft_show: out of memory");
  weft_array *bad;
  if (!f && !arrays_nodes("weft_show", n, a, node, &bad)) f = array_failure("weft_show", 0, bad);
  else if (!f) {
    f = show_nodes(n, node, what, &t);
    nodes_release(n, node);
  }
  mem_free(node);
  return kept(&t, f);
}

static struct failure *show_function(struct weft_function *g, const char *what, struct text *t) {
  if (g->failure) return failure_retain(g->failure);
  if (!strcmp(what, "graph") || !strcmp(what, "dot")) return show_graph(g->n_out, g->out, what[0] == 'd', t);
  if (!is_of_plans(what))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_function_show: \"%s\" is none of graph, dot, plan, kernels, asm, ptx", what);
  plan_set_show(atomic_load(&g->plans), what, t);
  return NULL;
}

const char *weft_function_show(weft_function *g, const char *what) {
  struct text t = { 0 };
  struct failure *f = !what ? fail(WEFT_ERR_ARG, scope_origin(), "weft_function_show: nothing to show")
                            : function_ended("weft_function_show", g);
  return kept(&t, f ? f : show_function(g, what, &t));
}

weft_status weft_plan(int n, weft_array *const a[], weft_cost *out) {
  struct failure *f = NULL;
  weft_array *bad;
  if (!out) return report(WEFT_ERR_ARG, "weft_plan: the cost is NULL");
  if (n < 0) return report(WEFT_ERR_ARG, "weft_plan: %d arrays", n);
  struct node **node = mem_alloc(sizeof *node * (size_t)(n + 1));
  *out = (weft_cost){ 0 };
  if (!node) f = fail(WEFT_ERR_MEMORY, 0, "weft_plan: out of memory");
  else if (!arrays_nodes("weft_plan", n, a, node, &bad)) f = array_failure("weft_plan", 0, bad);
  else {
    f = eval_cost(n, node, out);
    nodes_release(n, node);
  }
  mem_free(node);
  return failure_tell(f);
}

static char cpu_text[96];

/* Instruction sets by name where the compiler can ask the processor. */
static void describe_cpu(void) {
  const char *set = "any instruction set";
#if defined __x86_64__
  set = __builtin_cpu_supports("avx512f") ? "AVX-512" : __builtin_cpu_supports("avx2") ? "AVX2" : "x86-64";
#elif defined __aarch64__
  set = "aarch64";
#endif
  struct text t = { 0 };
  text_addf(&t, "CPU, %d threads, %lld MiB, %s", pool_threads(), (long long)(machine_memory("") >> 20), set);
  size_t n = t.n < sizeof cpu_text - 1 ? t.n : sizeof cpu_text - 1;
  memcpy(cpu_text, text_of(&t), n);
  text_free(&t);
}

#if defined __clang__
#define COMPILER "clang " __clang_version__
#elif defined __GNUC__
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "another compiler"
#endif

static char version_text[512];

static void describe_version(void) {
  struct text t = { 0 };
  text_addf(&t, "weft %d.%d.%d (" COMPILER "); kernels by %s",
            WEFT_VERSION / 10000, WEFT_VERSION / 100 % 100, WEFT_VERSION % 100, compiled_by());
  for (int i = 0; i == 0 || device_numbered(i); i++) text_addf(&t, "; device %d: %s", i, weft_device_text(i));
  if (!device_numbered(1)) text_add(&t, "; no GPU");
  size_t n = t.n < sizeof version_text - 1 ? t.n : sizeof version_text - 1;
  memcpy(version_text, text_of(&t), n);
  text_free(&t);
}

const char *weft_version_text(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, describe_version);
  return version_text;
}

const char *weft_device_text(int device) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const struct device *d = device_numbered(device);
  if (device) return d ? d->text(d) : NULL;
  pthread_once(&once, describe_cpu);
  return cpu_text;
}
