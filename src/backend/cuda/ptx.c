/* ptx.c -- the text around the statements: names, parameters, declarations, entries.
 *
 * Owns the names: a register is called as its value in the kernel, made unique; what the printer adds begins with $. The
 * statements are printed first, the declarations of what they use afterwards, in front of them. */
#include "backend/cuda/ptx_plan.h"
#include "backend/cuda/gpu_wide.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Lines, names -------------------------------------------------------------------------------------------------------- */

void ptx_refuse(struct printer *p, const char *why) {
  if (!p->why) p->why = why;
}

void ptx_line(struct printer *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_add(&p->body, "\t");
  text_addv(&p->body, format, args);
  text_add(&p->body, ";\n");
  va_end(args);
}

const char *ptx_textf(struct printer *p, const char *format, ...) {
  char small[64]; /* most are names */
  struct text t = { 0 };
  va_list args;
  va_start(args, format);
  int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  bool is_small = n >= 0 && (size_t)n < sizeof small;
  va_start(args, format);
  if (!is_small) text_addv(&t, format, args);
  va_end(args);
  const char *copy = t.failed ? NULL : arena_text(p->arena, is_small ? small : text_of(&t));
  text_free(&t);
  if (!copy) ptx_refuse(p, "");
  return copy ? copy : "%?"; /* never printed; long enough for all who look at it */
}

const char *ptx_own(struct printer *p, enum own kind) { return ptx_textf(p, "$%c%d", "phwd"[kind], p->n_own[kind]++); }
const char *ptx_label(struct printer *p, const char *name) { return ptx_textf(p, "$%s_%d", name, ++p->n_labels); }

void ptx_place(struct printer *p, const char *label) {
  text_add(&p->body, label);
  text_add(&p->body, ":\n");
}

void ptx_place_loop(struct printer *p, const char *label) {
  ptx_place(p, label);
  text_add(&p->body, "\t.pragma \"nounroll\";\n");
}

const char *ptx_val(struct printer *p, int v) {
  const struct kir_val *x = &p->k->vals[v];
  p->is_used[v] = true;
  if (x->kind != KIR_LIT || x->dtype != WEFT_BOOL) return p->reg[v];
  p->uses_bool[x->bits != 0] = true;
  return x->bits ? "$true" : "$false";
}

/* Registers that PTX itself calls so. */
static bool is_special(const char *name) {
  static const char *const words[] = { "tid", "ntid", "laneid", "warpid", "nwarpid", "ctaid", "nctaid", "smid", "nsmid", "gridid" };
  static const char *const begins[] = { "clock", "pm", "lanemask", "globaltimer", "envreg", "reserved", "total_smem", "aggr_smem",
                                        "dynamic_smem", "cluster", "is_explicit", "current_graph" };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(name, words[i])) return true;
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (!strncmp(name, begins[i], strlen(begins[i]))) return true;
  return false;
}

static bool is_stride_of(const char *name, const char *base) {
  size_t n = strlen(base);
  return !strncmp(name, base, n) && name[n] == '_' && name[n + 1] >= '0' && name[n + 1] <= '9';
}

static bool is_taken(struct printer *p, const char *name, int n_bufs, int n_vals) {
  for (int b = 0; b < n_bufs; b++)
    if (!strcmp(name, p->base[b]) || is_stride_of(name, p->base[b]) || is_stride_of(p->base[b], name)) return true;
  for (int v = 0; v < n_vals; v++)
    if (p->k->vals[v].kind != KIR_LIT && !strcmp(name, p->reg[v])) return true;
  return is_special(name + 1);
}

static const char *unique(struct printer *p, const char *name, int n_bufs, int n_vals) {
  const char *r = ptx_textf(p, "%%%s", name);
  for (int i = 2; is_taken(p, r, n_bufs, n_vals) && !p->why; i++) r = ptx_textf(p, "%%%s__%d", name, i);
  return r;
}

static void name_all(struct printer *p) {
  int n_temps = 0;
  for (int b = 0; b < p->k->n_bufs && !p->why; b++) p->base[b] = unique(p, p->k->bufs[b].name, b, 0);
  for (int v = 0; v < p->k->n_vals && !p->why; v++) {
    const struct kir_val *x = &p->k->vals[v];
    if (x->kind == KIR_LIT) p->reg[v] = ptx_number(p, (weft_dtype)x->dtype, x->bits);
    else if (x->name) p->reg[v] = unique(p, x->name, p->k->n_bufs, v);
    else p->reg[v] = ptx_textf(p, "%%%d", ++n_temps);
  }
}

/* ---- Parameters ---------------------------------------------------------------------------------------------------------- */

static bool is_bound(const struct kir_buf *b) { return b->kind != KIR_TABLE && b->kind != KIR_LOCAL; }
static const char *bare(const char *reg) { return reg + 1; }
static const char *param_type(weft_dtype d) { return d == WEFT_BOOL ? "u8" : ptx_type(d); }

static void param(struct text *out, const char *type, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void param(struct text *out, const char *type, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_addf(out, "%s\t.param .%s ", out->s && out->s[out->n - 1] == '(' ? "\n" : ",\n", type);
  text_addv(out, format, args);
  va_end(args);
}

static void buffer_params(struct printer *p, struct text *out, int b) {
  const char *name = bare(p->base[b]);
  param(out, "u64", "p_%s", name);
  for (int d = 0; d < p->k->bufs[b].rank; d++) param(out, "s64", "p_%s_%d", name, d);
}

static void params(struct printer *p, struct text *out) {
  const struct kir_kernel *k = p->k;
  for (int b = 0; b < k->n_bufs; b++)
    if (is_bound(&k->bufs[b])) buffer_params(p, out, b);
  for (int i = 0; i < k->n_sizes; i++) param(out, "s64", "p_%s", bare(p->reg[k->sizes[i]]));
  for (int i = 0; i < k->n_args; i++)
    param(out, param_type((weft_dtype)k->vals[k->args[i]].dtype), "p_%s", bare(p->reg[k->args[i]]));
  if (p->plan->n_checks) param(out, "u64", "q_checks");
  if (p->plan->has_stop) param(out, "u64", "q_stop"), param(out, "u64", "q_stop_number");
  if (p->plan->n_rows) param(out, "u64", "q_scratch");
  if (p->plan->n_rows) param(out, "u64", "q_scratch_bytes");
  for (int r = 0; r < p->plan->n_rows; r++) param(out, "s64", "q_row%d", r);
  if (p->plan->has_sets) param(out, "s64", "q_sets");
  if (p->plan->has_block) param(out, "s64", "q_block");
  if (p->plan->streamed.n_loads || p->plan->relay.each) param(out, "u64", "q_streams");
  if (p->plan->in_order || p->plan->leaves) param(out, "u64", "q_copies"), param(out, "s64", "q_copy_bytes");
  if (p->plan->leaves) param(out, "s64", "q_left");
}

/* ---- What the statements use ----------------------------------------------------------------------------------------------- */

static bool in_register(const struct kir_kernel *k, int v) { return k->vals[v].kind != KIR_LIT; }

static void declare_type(struct printer *p, struct text *out, const char *type) {
  size_t column = 0;
  for (int i = 0; i < p->k->n_vals * (p->n_wide ? p->n_wide : 1); i++) {
    int v = i % p->k->n_vals, e = i / p->k->n_vals;
    if (!p->is_used[v] || !in_register(p->k, v) || strcmp(type, ptx_type((weft_dtype)p->k->vals[v].dtype))) continue;
    if (e && p->wide[e][v] == p->wide[0][v]) continue;
    const char *reg = e ? p->wide[e][v] : p->reg[v];
    if (column > 90) text_add(out, ";\n"), column = 0;
    if (!column) text_addf(out, "\t.reg .%s ", type);
    text_addf(out, "%s%s", column ? ", " : "", reg);
    column += strlen(reg) + 2;
  }
  if (column) text_add(out, ";\n");
}

static void declare_buffer(struct printer *p, struct text *out, int b) {
  if (!p->base_used[b]) return;
  text_addf(out, "\t.reg .b64 %s", p->base[b]);
  for (int d = 0; d < p->k->bufs[b].rank; d++)
    if (p->stride_used[b] >> d & 1) text_addf(out, ", %s_%d", p->base[b], d);
  text_add(out, ";\n");
}

static void declare_own(struct printer *p, struct text *out) {
  static const char *const types[OWN_KINDS] = { "pred", "b16", "b32", "b64" };
  for (int k = 0; k < OWN_KINDS; k++)
    if (p->n_own[k]) text_addf(out, "\t.reg .%s $%c<%d>;\n", types[k], "phwd"[k], p->n_own[k]);
  if (p->stack_bytes) text_addf(out, "\t.local .align 8 .b8 stack[%d];\n", p->stack_bytes);
}

static void declare(struct printer *p, struct text *out) {
  static const char *const types[] = { "pred", "s32", "u32", "f32", "s64", "u64", "f64" };
  for (int b = 0; b < p->k->n_bufs; b++) declare_buffer(p, out, b);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) declare_type(p, out, types[i]);
  declare_own(p, out);
}

static void load_scalars(struct printer *p, struct text *out, int n, const int vals[]) {
  for (int i = 0; i < n; i++) {
    weft_dtype d = (weft_dtype)p->k->vals[vals[i]].dtype;
    const char *r = p->reg[vals[i]];
    if (!p->is_used[vals[i]]) continue;
    if (d != WEFT_BOOL) { text_addf(out, "\tld.param.%s %s, [p_%s];\n", ptx_type(d), r, bare(r)); continue; }
    text_addf(out, "\t{ .reg .b32 $b; ld.param.u8 $b, [p_%s]; setp.ne.u32 %s, $b, 0; }\n", bare(r), r);
  }
}

static void load_buffer(struct printer *p, struct text *out, int b) {
  const char *r = p->base[b];
  const struct kir_buf *buf = &p->k->bufs[b];
  if (!p->base_used[b] || buf->kind == KIR_LOCAL) return;
  if (buf->kind == KIR_TABLE) { text_addf(out, "\tmov.u64 %s, t_%s;\n", r, bare(r)); return; }
  text_addf(out, "\tld.param.u64 %s, [p_%s];\n", r, bare(r));
  if (p->survey.bufs[b].private_op == KIR_OPS) text_addf(out, "\tcvta.to.global.u64 %s, %s;\n", r, r);
  for (int d = 0; d < buf->rank; d++)
    if (p->stride_used[b] >> d & 1) text_addf(out, "\tld.param.s64 %s_%d, [p_%s_%d];\n", r, d, bare(r), d);
}

/* Which index of the thread an axis is, and out of how many. */
static void thread_index(struct printer *p, struct text *out, enum ptx_axis axis) {
  static const char *const names[PTX_AXES] = { "lane", "row", "plane", "volume" };
  static const char spread_over[PTX_AXES] = "xyz?", rows_over[PTX_AXES] = "?xyz";
  bool is_thread = p->survey.is_cooperative && axis == PTX_LANES, is_block = p->survey.is_cooperative || axis >= PTX_PLANES;
  const char *n = names[axis];
  char c = is_thread ? 'x' : p->survey.is_cooperative ? rows_over[axis] : spread_over[axis];
  if (is_thread || is_block) {
    text_addf(out, "\t.reg .s64 $%s, $%ss;\n\tcvt.u64.u32 $%s, %%%s.%c;\n\tcvt.u64.u32 $%ss, %%%s.%c;\n", n, n,
              n, is_thread ? "tid" : "ctaid", c, n, is_thread ? "ntid" : "nctaid", c);
    return;
  }
  text_addf(out, "\t.reg .s64 $%s, $%ss;\n", n, n);
  text_addf(out, "\t{ .reg .b32 $b<3>; .reg .b64 $t;\n"
                 "\tmov.u32 $b0, %%ctaid.%c; mov.u32 $b1, %%ntid.%c; mov.u32 $b2, %%tid.%c;\n"
                 "\tcvt.u64.u32 $t, $b2; mad.wide.u32 $%s, $b0, $b1, $t;\n"
                 "\tmov.u32 $b0, %%nctaid.%c; mul.wide.u32 $%ss, $b0, $b1; }\n", c, c, c, n, c, n);
}

static void row_addresses(struct printer *p, struct text *out) {
  if (!p->plan->n_rows) return;
  bool is_shared = p->plan->locals_are_shared || p->rows_are_shared;
  if (is_shared) text_add(out, "\t.reg .b64 $locals;\n\tmov.u64 $locals, rows;\n");
  else text_add(out, "\t.reg .b64 $shared, $memory;\n\tmov.u64 $shared, rows;\n\tcvta.shared.u64 $shared, $shared;\n"
                "\t{ .reg .pred $p; .reg .b32 $b; .reg .b64 $s, $n; // rows lie in shared memory, or in scratch\n"
                "\tld.param.u64 $s, [q_scratch]; ld.param.u64 $n, [q_scratch_bytes];\n"
                "\tsetp.eq.u64 $p, $s, 0; mov.u32 $b, %ctaid.x; cvt.u64.u32 $memory, $b;\n"
                "\tmad.lo.u64 $s, $memory, $n, $s; selp.b64 $memory, $shared, $s, $p; }\n");
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *row = &p->plan->rows[r];
    text_addf(out, "\t.reg .b64 $row%d;\n\tld.param.s64 $row%d, [q_row%d];\n", r, r, r);
    if (row->kind == PTX_COPY && p->plan->in_order) continue;
    if (row->kind == PTX_COPY) text_addf(out, "\t.reg .pred $in_place%d;\n\tsetp.lt.s64 $in_place%d, $row%d, 0;\n", r, r, r);
    text_addf(out, "\tadd.s64 $row%d, $row%d, %s;\n", r, r,
              is_shared ? "$locals" : row->kind == PTX_COPY ? "$shared" : "$memory");
    if (row->kind == PTX_LOCAL && p->base_used[row->of]) text_addf(out, "\tmov.u64 %s, $row%d;\n", p->base[row->of], r);
  }
}

static void prologue(struct printer *p, struct text *out) {
  for (int b = 0; b < p->k->n_bufs; b++) load_buffer(p, out, b);
  load_scalars(p, out, p->k->n_sizes, p->k->sizes);
  load_scalars(p, out, p->k->n_args, p->k->args);
  if (p->n_checks)
    text_add(out, "\t.reg .b64 $checks;\n\tld.param.u64 $checks, [q_checks];\n\tcvta.to.global.u64 $checks, $checks;\n");
  if (p->uses_stop)
    text_add(out, "\t.reg .b64 $stop, $stop_number;\n\tld.param.u64 $stop, [q_stop];\n"
                  "\tld.param.u64 $stop_number, [q_stop_number];\n");
  if (p->plan->has_block) text_add(out, "\t.reg .s64 $block;\n\tld.param.s64 $block, [q_block];\n");
  if (p->uses_first) p->uses_thread[PTX_LANES] = true;
  for (int a = 0; a < PTX_AXES; a++)
    if (p->uses_thread[a]) thread_index(p, out, (enum ptx_axis)a);
  if (p->uses_first) text_add(out, "\t.reg .pred $first;\n\tsetp.eq.s64 $first, $lane, 0;\n");
  if (p->uses_bool[0]) text_add(out, "\t.reg .pred $false;\n\tmov.pred $false, 0;\n");
  if (p->uses_bool[1]) text_add(out, "\t.reg .pred $true;\n\tmov.pred $true, 1;\n");
}

/* ---- Entries --------------------------------------------------------------------------------------------------------------- */

static void main_body(struct printer *p) {
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.launch_dependents");
  ptx_copies_begin(p);
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
  ptx_copies_end(p);
}

static bool printer_begin(struct printer *p) {
  size_t n_vals = (size_t)p->k->n_vals + 1, n_bufs = (size_t)p->k->n_bufs + 1;
  p->reg = arena_take(p->arena, n_vals * sizeof *p->reg);
  p->base = arena_take(p->arena, n_bufs * sizeof *p->base);
  p->is_used = arena_take(p->arena, n_vals * sizeof *p->is_used);
  p->base_used = arena_take(p->arena, n_bufs * sizeof *p->base_used);
  p->stride_used = arena_take(p->arena, n_bufs * sizeof *p->stride_used);
  p->narrow = arena_take(p->arena, n_vals * sizeof *p->narrow);
  p->made = arena_take(p->arena, n_vals * sizeof *p->made);
  p->carry = arena_take(p->arena, n_vals * sizeof *p->carry);
  p->counter = arena_take(p->arena, n_vals * sizeof *p->counter);
  if (!p->reg || !p->base || !p->is_used || !p->base_used || !p->stride_used || !p->carry || !p->counter || !p->narrow || !p->made)
    return ptx_refuse(p, ""), false;
  name_all(p);
  return !p->why;
}

static bool has(const struct kir_block *b, enum kir_kind kind) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) if (s->kind == kind || has(&s->body, kind)) return true;
  return false;
}

/* Blocks of threads that are to find room on a processor. Left to itself the compiler saves registers and loads one number at a
 * time, so that a step of a loop waits for memory as often as it has operands (ptxas 13.0: an RNN's products in 32 registers, 56
 * with this). */
enum { BLOCKS_OF_FOLDS = 3, BLOCKS_OF_TIME = 1 };
/* Rows that are gone through several times, of f32: the linker's compiler takes 96 registers for a softmax, so that a processor has
 * one block of 512 threads, where 62 do. */
enum { BLOCKS_OF_ROWS = 2 };
/* Of 1024 threads that exchange: unless it is told, the compiler leaves room for two and puts registers into memory. */
enum { BLOCKS_OF_SETS = 1 };

static bool has_doubles(const struct kir_kernel *k) {
  for (int v = 0; v < k->n_vals; v++) if (k->vals[v].kind == KIR_RESULT && k->vals[v].dtype == WEFT_F64) return true;
  return false;
}

static int blocks_wanted(const struct printer *p) {
  const struct kir_block *b = &p->k->body;
  const struct survey *s = &p->survey;
  if (p->plan->has_sets) return BLOCKS_OF_SETS;
  if (s->is_cooperative && s->is_ordered && !s->is_dealt && !s->is_one_warp && !has(b, KIR_CARRY) && !has_doubles(p->k))
    return BLOCKS_OF_ROWS;
  return has(b, KIR_CARRY) ? BLOCKS_OF_TIME : has(b, KIR_SERIAL) && !p->survey.is_cooperative ? BLOCKS_OF_FOLDS : 0;
}

static void entry(struct printer *p, struct text *out, const char *name, void (*body)(struct printer *), bool has_rows) {
  if (!printer_begin(p)) return;
  if (body == main_body) p->blocks = blocks_wanted(p);
  body(p);
  text_addf(out, ".visible .entry %s(", name);
  params(p, out);
  int usual = p->survey.is_cooperative && !p->lane_loop ? p->plan->has_sets ? 1024 : 512 : 256;
  text_addf(out, ")\n.maxntid %d\n", p->threads ? p->threads : usual);
  if (p->blocks) text_addf(out, ".minnctapersm %d\n", p->blocks);
  text_add(out, "{\n");
  declare(p, out);
  prologue(p, out);
  if (has_rows) row_addresses(p, out);
  text_add(out, text_of(&p->body));
  text_add(out, "\tret;\n}\n");
  if (p->body.failed) ptx_refuse(p, "");
  text_free(&p->body);
}

static void comment(const struct kir_kernel *k, struct text *out) {
  struct text t = { 0 };
  kir_print(k, &t);
  for (const char *s = text_of(&t), *end; *s; s = *end ? end + 1 : end) {
    end = strchr(s, '\n');
    if (!end) end = s + strlen(s);
    text_add(out, "// ");
    text_bytes(out, s, (size_t)(end - s));
    text_add(out, "\n");
  }
  if (t.failed) out->failed = true;
  text_free(&t);
}

static void tables(const struct printer *p, struct text *out) {
  for (int b = 0; b < p->k->n_bufs; b++) {
    const struct kir_buf *t = &p->k->bufs[b];
    int width = t->kind == KIR_TABLE ? kir_width((weft_dtype)t->dtype) : 0;
    if (!width) continue;
    text_addf(out, ".global .align 8 .%s t_%s[%d] = {",
              width == 8 ? "b64" : width == 4 ? "b32" : "b8", bare(p->base[b]), t->n_data);
    for (int i = 0; i < t->n_data; i++) text_addf(out, "%s%s0x%" PRIx64, i ? "," : "", i % 8 ? " " : "\n\t", t->data[i]);
    text_add(out, " };\n");
  }
}

/* The oldest that has what the entries use. */
static const char *target_of(const struct printer *p) {
  const struct ptx_plan *plan = p->plan;
  if (plan->by_groups && (plan->halves[0] || plan->attention)) return "8.0\n.target sm_90a";
  if (plan->streamed_entry || plan->relay_entry) return "8.0\n.target sm_90";
  if (plan->merges_early || (plan->running_entry && plan->capability >= 90)) return "7.8\n.target sm_90";
  return plan->floats[0] && plan->capability >= 90 ? "7.8\n.target sm_90" : "7.0\n.target sm_80";
}

static void heading(struct printer *p, struct text *out) {
  comment(p->k, out);
  text_addf(out, "\n.version %s\n.address_size 64\n\n", target_of(p));
  if (p->plan->partial_bytes) text_addf(out, ".shared .align 8 .b8 partials[%zu];\n", p->plan->partial_bytes);
  if (p->plan->chain) text_addf(out, ".shared .align 16 .b8 chain[%zu];\n", ptx_chain_bytes(p->plan->chain));
  if (p->plan->floats[0]) text_add(out, ".extern .shared .align 16 .b8 floats[];\n");
  if (p->plan->thin[0]) text_add(out, ".extern .shared .align 16 .b8 thin[];\n");
  if (p->plan->product)
    text_addf(out, ".shared .align 16 .b8 tiles[%zu];\n",
        ptx_tile_bytes((weft_dtype)p->k->vals[p->survey.product.a->out[0]].dtype));
  if (p->plan->in_order || p->plan->leaves) text_addf(out, ".shared .align 8 .b8 merged[%d];\n", MERGED_BYTES);
  if (p->plan->wide_entry && p->plan->wide.n_folds) text_add(out, ".extern .shared .align 16 .b8 folds[];\n");
  if (p->plan->streamed_entry) text_add(out, ".extern .shared .align 16 .b8 streamed[];\n");
  if (p->plan->relay_entry) text_add(out, ".extern .shared .align 16 .b8 relayed[];\n");
  if (p->plan->running_entry) text_add(out, ".extern .shared .align 16 .b8 running[];\n");
  if (p->plan->turned_entry) text_addf(out, ".shared .align 8 .b8 turned[%zu];\n", p->plan->turned.bytes);
  if (p->plan->halves[0] || p->plan->attention) text_add(out, ".extern .shared .align 1024 .b8 halves[];\n");
  if (p->plan->n_rows) text_add(out, ".extern .shared .align 16 .b8 rows[];\n");
  if (printer_begin(p)) tables(p, out);
}

static bool has_private_out(const struct kir_kernel *k, const struct survey *s) {
  if (s->in_order) return false;
  for (int b = 0; b < k->n_bufs; b++)
    if (s->bufs[b].private_op != KIR_OPS && k->bufs[b].kind == KIR_OUT) return true;
  return false;
}

/* The same state of printing, at its beginning. */
static struct printer again(const struct printer *p) {
  return (struct printer){ .k = p->k, .shape = p->shape, .plan = p->plan, .survey = p->survey, .arena = p->arena, .why = p->why };
}

static void large_halves(struct printer *p) { ptx_halves(p, 0); }
static void small_halves(struct printer *p) { ptx_halves(p, 1); }
static void large_floats(struct printer *p) { ptx_floats(p, 0); }
static void middle_floats(struct printer *p) { ptx_floats(p, 1); }
static void small_floats(struct printer *p) { ptx_floats(p, 2); }
static void a_row(struct printer *p) { ptx_thin(p, 0); }
static void few_rows(struct printer *p) { ptx_thin(p, 1); }
static void some_rows(struct printer *p) { ptx_thin(p, 2); }

/* A part of one entry; name NULL: it is empty. */
static void part(struct printer *last, struct text *out, struct ptx_plan *plan, int which, const char *name,
                 void (*body)(struct printer *)) {
  struct printer p = again(last);
  if (name && !p.why) entry(&p, out, name, body, which == PTX_LONG || which == PTX_SHIFTED || which == PTX_LOOSE);
  plan->end[which] = out->n;
  *last = p;
}

enum { LONG_TEXT = 100 << 10 }; /* of the main entry: it waits for arithmetic, whatever it loads, and each further entry takes the
                                   driver as long again to compile, 0.2 s and more */

static void print_all(struct printer *p, struct text *out, struct ptx_plan *plan) {
  plan->entry = ptx_textf(p, "weft_%s", p->k->name);
  plan->init = has_private_out(p->k, &p->survey) ? ptx_textf(p, "weft_%s_empty", p->k->name) : NULL;
  plan->merge = p->survey.in_order || p->survey.leaves ? ptx_textf(p, "weft_%s_merge", p->k->name) : NULL;
  if (ptx_has_floats(&p->survey)) plan->floats_dtype = (weft_dtype)p->k->bufs[p->survey.product.a->buf].dtype;
  for (int i = 0; i < PTX_FLOATS && ptx_has_floats(&p->survey) && ptx_has_floats_form(plan->floats_dtype, i); i++)
    plan->floats[i] = ptx_textf(p, "weft_%s_floats%d", p->k->name, i);
  plan->product = p->survey.product.is_there && !plan->floats[0] ? ptx_textf(p, "weft_%s_tiles", p->k->name) : NULL;
  for (int i = 0; i < PTX_HALVES && ptx_has_halves(&p->survey, p->shape, plan); i++)
    plan->halves[i] = ptx_textf(p, "weft_%s_halves%d", p->k->name, i);
  for (int i = 0; i < PTX_THINS && ptx_has_thin(&p->survey, p->shape, i, plan); i++)
    plan->thin[i] = ptx_textf(p, "weft_%s_thin%d", p->k->name, i);
  plan->is_librarys = !plan->halves[0] && p->shape->by_library && !p->survey.is_exact;
  if (plan->running.n_lines) plan->running_entry = ptx_textf(p, "weft_%s_running", p->k->name);
  if (plan->turned.n_loads) plan->turned_entry = ptx_textf(p, "weft_%s_turned", p->k->name);
  if (plan->flat.each) plan->flat_entry = ptx_textf(p, "weft_%s_flat", p->k->name);
  if (plan->pairs.lane) plan->pairs_entry = ptx_textf(p, "weft_%s_pairs", p->k->name);
  if (plan->wide.n_bufs) plan->wide_entry = ptx_textf(p, "weft_%s_%s", p->k->name, plan->wide.is_rows ? "rows" : "wide");
  if (plan->shorts.most) plan->short_entry[PTX_SHORT_LOOSE] = ptx_textf(p, "weft_%s_short_loose", p->k->name);
  if (plan->shorts.share[PTX_SHORT_ALIGNED].each > 1)
    plan->short_entry[PTX_SHORT_ALIGNED] = ptx_textf(p, "weft_%s_short", p->k->name);
  if (plan->wide.can_be_long) plan->long_entry = ptx_textf(p, "weft_%s_long", p->k->name);
  if (plan->wide.can_be_long && plan->wide.along) plan->shifted_entry = ptx_textf(p, "weft_%s_shifted", p->k->name);
  if (plan->wide.can_be_long) plan->loose_entry = ptx_textf(p, "weft_%s_loose", p->k->name);
  if (plan->streamed.n_loads) plan->streamed_entry = ptx_textf(p, "weft_%s_streamed", p->k->name);
  bool is_spread = plan->wide_entry && !plan->wide.is_rows && !plan->wide.has_columns && !plan->in_order;
  if (is_spread && plan->wide.along && p->survey.grid_depth)
    plan->shifted_spread_entry = ptx_textf(p, "weft_%s_wide_shifted", p->k->name);
  if (plan->warp_rows.n) plan->warp_rows_entry = ptx_textf(p, "weft_%s_of_warps", p->k->name);
  if (plan->relay.each) plan->relay_entry = ptx_textf(p, "weft_%s_relayed", p->k->name);
  plan->merges_early = plan->in_order && plan->capability >= 90;
  heading(p, out);
  plan->heading_bytes = out->n;
  struct printer main = again(p), init;
  if (!main.why) entry(&main, out, plan->entry, main_body, true);
  plan->contended = main.contended;
  init = again(&main);
  init.survey.is_cooperative = false; /* any number of threads, which never meet */
  if (plan->init && !init.why) entry(&init, out, plan->init, ptx_empty_outputs, false);
  plan->end[PTX_MAIN] = out->n;
  if (out->n - plan->heading_bytes > LONG_TEXT) {
    plan->wide_entry = plan->shifted_spread_entry = plan->turned_entry = plan->flat_entry = plan->warp_rows_entry = NULL;
    plan->short_entry[PTX_SHORT_ALIGNED] = plan->short_entry[PTX_SHORT_LOOSE] = NULL;
  }
  struct printer last = again(&init);
  part(&last, out, plan, PTX_MERGE, plan->merge, ptx_merge_copies);
  part(&last, out, plan, PTX_TILES, plan->product, ptx_product);
  part(&last, out, plan, PTX_FIRST_HALVES, plan->halves[0], large_halves);
  part(&last, out, plan, PTX_FIRST_HALVES + 1, plan->halves[1], small_halves);
  static void (*const floats[PTX_FLOATS])(struct printer *) = { large_floats, middle_floats, small_floats };
  for (int i = 0; i < PTX_FLOATS; i++) part(&last, out, plan, PTX_FIRST_FLOATS + i, plan->floats[i], floats[i]);
  static void (*const thin[PTX_THINS])(struct printer *) = { a_row, few_rows, some_rows };
  for (int i = 0; i < PTX_THINS; i++) part(&last, out, plan, PTX_FIRST_THIN + i, plan->thin[i], thin[i]);
  last.survey.is_cooperative = p->survey.is_cooperative;
  part(&last, out, plan, PTX_WIDELY, plan->wide_entry, ptx_wide_body);
  plan->wide.groups = last.groups;
  part(&last, out, plan, PTX_SHIFTED_SPREAD, plan->shifted_spread_entry, ptx_shifted_spread_body);
  part(&last, out, plan, PTX_LONG, plan->long_entry, ptx_long_body);
  plan->wide.asks = last.n_asked > 0;
  part(&last, out, plan, PTX_SHIFTED, plan->shifted_entry, ptx_shifted_body);
  part(&last, out, plan, PTX_LOOSE, plan->loose_entry, ptx_loose_body);
  part(&last, out, plan, PTX_STREAMED, plan->streamed_entry, ptx_streamed_body);
  part(&last, out, plan, PTX_IN_TURN, plan->turned_entry, ptx_turned_body);
  part(&last, out, plan, PTX_IN_ROWS, plan->running_entry, ptx_running_body);
  part(&last, out, plan, PTX_IN_PAIRS, plan->pairs_entry, ptx_pairs_body);
  part(&last, out, plan, PTX_AS_ONE_ROW, plan->flat_entry, ptx_flat_body);
  part(&last, out, plan, PTX_FIRST_SHORT + PTX_SHORT_ALIGNED, plan->short_entry[PTX_SHORT_ALIGNED], ptx_short_body);
  part(&last, out, plan, PTX_FIRST_SHORT + PTX_SHORT_LOOSE, plan->short_entry[PTX_SHORT_LOOSE], ptx_short_loose_body);
  part(&last, out, plan, PTX_OF_WARPS, plan->warp_rows_entry, ptx_warp_rows_body);
  part(&last, out, plan, PTX_RELAYED, plan->relay_entry, ptx_relay_body);
  p->why = last.why;
}

static void print_attention(struct printer *p, struct text *out, struct ptx_plan *plan) {
  plan->entry = ptx_textf(p, "weft_%s", p->k->name);
  heading(p, out);
  plan->heading_bytes = out->n;
  struct printer main = again(p);
  plan->aligned_entry = ptx_textf(p, "weft_%s_aligned", p->k->name);
  if (!main.why) entry(&main, out, plan->entry, ptx_attention, false);
  for (int i = 0; i < PTX_ALIGNED; i++) plan->end[i] = out->n;
  part(&main, out, plan, PTX_ALIGNED, plan->aligned_entry, ptx_attention_aligned);
  p->why = main.why;
}

bool ptx_print(const struct kir_kernel *k, const struct shape_class *shape, int capability, struct text *out, struct ptx_plan *plan,
               const char **why) {
  *plan = (struct ptx_plan){ .arena = arena_new(), .capability = capability, .by_groups = ptx_by_groups(capability) };
  struct printer p = { .k = k, .shape = shape, .plan = plan, .arena = plan->arena };
  if (!plan->arena) return *why = "", false;
  if (k->attention) survey_nothing(&p.survey, k, p.arena);
  else survey_make(&p.survey, k, p.arena);
  p.why = p.survey.why;
  if (!p.why) p.why = k->attention ? plan_make_attention(plan, k) : plan_make(plan, k, &p.survey, shape);
  plan->locals_are_shared = shape->few_locals && plan->n_rows;
  for (int r = 0; !p.why && r < plan->n_rows; r++) plan->locals_are_shared &= plan->rows[r].kind == PTX_LOCAL;
  if (!p.why) (k->attention ? print_attention : print_all)(&p, out, plan);
  if (!p.why && out->failed) p.why = "";
  if (!p.why) return true;
  ptx_plan_free(plan);
  return *why = p.why, false;
}
