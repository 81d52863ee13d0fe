/* gpu_elements.c -- the elements of a lane loop that a thread has at a time: their registers, and statements on all of them.
 *
 * p->wide[e][v] is the register of value v of element e. It is the same for all e where the value is the same for all lanes.
 * Elements are numbered along the thread's neighbours, then from group to group of them. Loads whose address is known before
 * the loop are printed ahead of all else (ptx_early_loads), so that they are under way together; folds are left to whoever
 * calls. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"
#include <string.h>

static bool names_wide(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++) if (p->wide[1][s->in[i]] != p->wide[0][s->in[i]]) return true;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        if (p->wide[1][v] != p->wide[0][v]) return true;
      }
  return false;
}

static void name_element(struct printer *p, int v) {
  for (int e = 1; e < p->n_wide; e++) p->wide[e][v] = ptx_textf(p, "%s$%d", p->wide[0][v], e);
}

/* Results of a lane loop have registers for each element, unless they are the same for all. */
static void name_block(struct printer *p, const struct kir_block *b, bool is_top) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if ((s->kind == KIR_FOLD && is_top) || s->kind == KIR_PAR || s->kind == KIR_LANE) continue;
    bool is_own = s->kind == KIR_YIELD || s->kind == KIR_PREFIX || s->kind == KIR_FOLD;
    if (s->kind == KIR_OP || s->kind == KIR_LOAD ? !is_top || names_wide(p, s) : is_own)
      for (int i = 0; i < s->n_out; i++) name_element(p, s->out[i]);
    name_block(p, &s->body, false);
  }
}

static void name_loops(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_PAR || s->kind == KIR_SERIAL) name_loops(p, &s->body);
    if (s->kind != KIR_LANE) continue;
    name_element(p, s->var);
    name_block(p, &s->body, true);
  }
}

static bool begin_elements(struct printer *p, int n) {
  size_t bytes = (size_t)(p->k->n_vals + 1) * sizeof *p->reg;
  p->n_wide = n;
  p->wide[0] = p->reg;
  for (int e = 1; e < n; e++) {
    if (!(p->wide[e] = arena_take(p->arena, bytes))) return ptx_refuse(p, ""), false;
    memcpy(p->wide[e], p->reg, bytes);
  }
  return true;
}

/* Elements are numbered along the thread's neighbours, then from group to group of them. */
bool ptx_name_elements(struct printer *p, int n) {
  if (!begin_elements(p, n)) return false;
  name_loops(p, &p->k->body);
  return !p->why;
}

bool ptx_name_nest(struct printer *p, int n, const struct ptx_nest *x) {
  if (!begin_elements(p, n)) return false;
  for (int i = 0; i < x->n_pars; i++) name_element(p, x->par[i]->var);
  name_element(p, x->lane->var);
  for (int i = 0; i < x->n_pars; i++) name_block(p, &x->par[i]->body, true);
  name_block(p, &x->lane->body, true);
  return !p->why;
}

/* Some value of the subscripts is computed in the loop itself. */
static bool waits_for(const struct kir_stmt *loop, const struct kir_stmt *s) {
  for (const struct kir_stmt *x = loop->body.first; x != s; x = x->next)
    for (int i = 0; i < x->n_out; i++)
      for (int d = 0; d < s->n_at; d++) if (survey_mentions(s->at[d], x->out[i])) return true;
  return false;
}

static bool follows_check(const struct kir_stmt *loop, const struct kir_stmt *s) {
  for (const struct kir_stmt *x = loop->body.first; x != s; x = x->next) if (x->kind == KIR_CHECK) return true;
  return false;
}

bool ptx_is_early(const struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane) {
  if (s->kind != KIR_LOAD || !ptx_is_neighbours(p, s, lane) || follows_check(lane, s) || waits_for(lane, s)) return false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++)
      for (int j = 0; j < s->at[d].term[i].n; j++) {
        int v = s->at[d].term[i].val[j];
        if (v != lane->var && p->wide[1][v] != p->wide[0][v]) return false;
      }
  return true;
}

bool ptx_is_same_for_all(struct printer *p, const struct kir_stmt *s) {
  return (s->kind == KIR_OP || s->kind == KIR_LOAD) && s->n_out && p->wide[1][s->out[0]] == p->wide[0][s->out[0]];
}

/* Jumps away unless the check holds for all of the elements. */
static void check_all(struct printer *p, const struct kir_stmt *s, int e, int each, const char *others) {
  const char *all = ptx_own(p, OWN_PRED);
  for (int i = 0; i < each; i++) {
    if (i && p->wide[e + i][s->in[0]] == p->wide[e][s->in[0]]) break;
    p->reg = p->wide[e + i];
    const char *ok = ptx_val(p, s->in[0]);
    if (i) ptx_line(p, "and.pred %s, %s, %s", all, all, ok);
    else ptx_line(p, "mov.pred %s, %s", all, ok);
  }
  ptx_line(p, "@!%s bra %s", all, others);
}

/* A division of elements e .. e + each - 1: their quotients are computed side by side, so that none waits for another. */
static void quotients(struct printer *p, const struct kir_stmt *s, int e, int each) {
  struct ptx_quotient q[PTX_WIDE];
  for (int i = 0; i < each; i++) {
    p->reg = p->wide[e + i];
    q[i] = (struct ptx_quotient){ ptx_val(p, s->in[0]), ptx_val(p, s->in[1]), ptx_val(p, s->out[0]), true,
                                  ptx_power(p, s) };
  }
  ptx_quotients(p, each, q);
  ptx_note_made(p, s);
}

/* Results of columns, to the copy of this iteration: numbers as registers have them; bools, which are bytes there, one by one. */
static void store_own(struct printer *p, const struct kir_stmt *s, int e, int each) {
  weft_dtype d = kir_register_of(ptx_memory_of(p, s));
  const char *r[PTX_WIDE];
  for (int i = 0; i < each; i++) {
    p->reg = p->wide[e + i], r[i] = ptx_in_register(p, d, s->in[0]);
    if (d == WEFT_BOOL) ptx_store(p, ".global", d, ptx_address(p, s->buf, s->at), r[i]);
  }
  p->reg = p->wide[e];
  if (d != WEFT_BOOL) ptx_access_pieces(p, false, ".global", ptx_address(p, s->buf, s->at), each, kir_width(d), r);
}

void ptx_wide_statement(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *lane, int e, int each, struct where w) {
  if (s->kind == KIR_SERIAL && each > 1) {
    ptx_columns(p, s, lane, each, w);
  } else if (s->kind == KIR_STORE && each > 1 && survey_is_own(&p->survey, s->buf)) {
    store_own(p, s, e, each);
  } else if (ptx_is_neighbours(p, s, lane)) {
    if (s->kind == KIR_LOAD) ptx_load_neighbours(p, s, e, each);
    else ptx_store_neighbours(p, s, e, each);
  } else if (s->kind == KIR_CHECK) {
    if (!e || p->wide[e][s->in[0]] != p->wide[0][s->in[0]]) check_all(p, s, e, each, w.rest);
  } else if (each > 1 && ptx_is_of_number(p, s) && !ptx_is_same_for_all(p, s)) {
    quotients(p, s, e, each);
  } else {
    for (int i = 0; i < each && !(i && ptx_is_same_for_all(p, s)); i++) {
      p->reg = p->wide[e + i];
      ptx_statements(p, s, s->next, w);
    }
  }
  p->reg = p->wide[0];
}

/* Stores by turns, all of them at once: the last one. NULL: s is the first of none. */
static const struct kir_stmt *woven(struct printer *p, const struct kir_stmt *s, const struct kir_stmt *loop, int e, int each) {
  int axis, n = each > 1 ? ptx_is_woven(p->k, p->shape, s, loop->var, &axis) : 0;
  int width = n ? kir_width(ptx_memory_of(p, s)) : 0, words = n * each * (int)least(4, width) / 4;
  if (!n || words > PTX_WIDE || width * each < 16) return NULL; /* fewer bytes are not aligned to 16 */
  ptx_store_woven(p, s, n, e, each);
  while (--n) s = s->next;
  return s;
}

/* The statements of a lane loop but for folds and early loads, on elements e .. e + each - 1. */
void ptx_element_body(struct printer *p, const struct kir_stmt *loop, int e, int each, struct where w) {
  for (const struct kir_stmt *s = loop->body.first, *last; s; s = s->next) {
    if (s->kind == KIR_FOLD || s->kind == KIR_KEEP || ptx_is_early(p, s, loop)) continue;
    if (e && ptx_is_same_for_all(p, s)) continue;
    if ((last = woven(p, s, loop, e, each))) s = last;
    else ptx_wide_statement(p, s, loop, e, each, w);
  }
  p->reg = p->wide[0];
}

void ptx_early_loads(struct printer *p, const struct kir_stmt *loop, int e, int each) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (ptx_is_early(p, s, loop)) ptx_load_neighbours(p, s, e, each);
  p->reg = p->wide[0];
}

void ptx_number_elements(struct printer *p, const struct kir_stmt *loop, int e, int each) {
  for (int i = 1; i < each; i++) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e + i][loop->var], p->wide[e][loop->var], i);
}
