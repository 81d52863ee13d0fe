/* list.c -- the listing of a compiled kernel: every instruction with its bytes, under the statement it serves. Decodes
 * exactly what encode.c writes. */
#include <stdio.h>
#include <string.h>
#include "backend/x86/code.h"
#include "base/text.h"

/* ---- What the listing keeps of the kernel ---- */

/* NULL: a temporary. Literals are called by their bits. */
static const char *name_of(struct code *c, const struct kir_val *v) {
  char text[32];
  if (v->kind != KIR_LIT) return v->name ? arena_text(c->arena, v->name) : NULL;
  snprintf(text, sizeof text, "0x%llx:%s", (unsigned long long)v->bits, kir_dtype_name((weft_dtype)v->dtype));
  return arena_text(c->arena, text);
}

void code_note_marks(struct code *c, const struct gen *g) {
  const struct kir_kernel *k = g->k;
  c->marks = arena_take(c->arena, (size_t)(g->n_marks + 1) * sizeof *c->marks);
  c->names = arena_take(c->arena, (size_t)(k->n_vals + 1) * sizeof *c->names);
  c->buf_names = arena_take(c->arena, (size_t)(k->n_bufs + 1) * sizeof *c->buf_names);
  c->name = arena_text(c->arena, k->name);
  if (!c->marks || !c->names || !c->buf_names) return; /* a listing without comments */
  for (int v = 0; v < k->n_vals; v++) c->names[v] = name_of(c, &k->vals[v]);
  for (int b = 0; b < k->n_bufs; b++) c->buf_names[b] = arena_text(c->arena, k->bufs[b].name);
  for (int i = 0; i < g->n_marks; i++) {
    const struct kir_stmt *s = g->marks[i].stmt;
    bool is_loop = s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE;
    struct code_mark *m = &c->marks[i];
    *m = (struct code_mark){ g->marks[i].at, s->kind, s->op, s->dtype, is_loop ? s->var : s->n_out ? s->out[0] : -1,
                             { -1, -1, -1 }, s->buf };
    for (int j = 0; j < s->n_in && j < 3; j++) m->in[j] = s->in[j];
  }
  c->n_marks = g->n_marks;
}

/* ---- Statements ---- */

static void put_name(const struct code *c, struct text *t, int val) {
  if (val < 0) return;
  if (c->names[val]) text_add(t, c->names[val]);
  else text_addf(t, "%%%d", val);
}

static void put_operands(const struct code *c, struct text *t, const struct code_mark *m) {
  for (int i = 0; i < 3 && m->in[i] >= 0; i++) {
    if (i) text_add(t, ", ");
    put_name(c, t, m->in[i]);
  }
}

static void put_result(const struct code *c, struct text *t, const struct code_mark *m) {
  put_name(c, t, m->out);
  if (m->kind == KIR_LOAD) { text_addf(t, " = load %s", c->buf_names[m->buf]); return; }
  const char *kind = m->kind == KIR_FOLD ? "fold " : m->kind == KIR_PREFIX ? "prefix " : "";
  text_addf(t, " = %s%s(", kind, kir_rows[m->op].name);
  put_operands(c, t, m);
  text_add(t, ")");
}

static void put_statement(const struct code *c, struct text *t, const struct code_mark *m) {
  static const char *const of_result[KIR_KINDS] = {
    [KIR_PAR] = "par ", [KIR_SERIAL] = "serial ", [KIR_LANE] = "lane ", [KIR_NEXT] = "next ", [KIR_YIELD] = "yield "
  };
  static const char *const of_operands[KIR_KINDS] = {
    [KIR_UNTIL] = "until ", [KIR_IF] = "if ", [KIR_CHECK] = "check ", [KIR_KEEP] = "keep "
  };
  text_add(t, "      ; ");
  if (m->kind == KIR_STORE) text_addf(t, "store %s = ", c->buf_names[m->buf]);
  if (of_operands[m->kind]) text_add(t, of_operands[m->kind]);
  if (m->kind == KIR_STORE || of_operands[m->kind]) put_operands(c, t, m);
  else if (of_result[m->kind]) {
    text_add(t, of_result[m->kind]);
    put_name(c, t, m->out);
  } else {
    put_result(c, t, m);
  }
  text_add(t, "\n");
}

/* ---- Instructions ---- */

struct decoded {
  const uint8_t *p;         /* next byte */
  int reg, vvvv, base, index, rm, bytes, k, mod;
  bool zero, broadcast, evex;
  int map, pp, w;
  int32_t disp;
};

static const char *const gpr_names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                         "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };

static int32_t take32(struct decoded *d) {
  int32_t v;
  memcpy(&v, d->p, 4);
  d->p += 4;
  return v;
}

/* ModRM, SIB and displacement; R, X, B are the high bits. */
static void operand(struct decoded *d, int r, int x, int b, int r2, int x2) {
  int m = *d->p++;
  d->mod = m >> 6;
  d->reg = (m >> 3 & 7) | r << 3 | r2 << 4;
  d->rm = (m & 7) | b << 3 | (d->mod == 3 ? x2 << 4 : 0);
  d->base = d->index = -1;
  d->disp = 0;
  if (d->mod == 3) return;
  if ((m & 7) == 4) {
    int sib = *d->p++;
    d->base = (sib & 7) | b << 3;
    if ((sib >> 3 & 7) != 4 || x) d->index = (sib >> 3 & 7) | x << 3 | (sib >> 6) << 8;
  } else if (d->mod == 0 && (m & 7) == 5) {
    d->disp = take32(d);
    return;
  } else {
    d->base = d->rm;
  }
  if (d->mod == 1) d->disp = (int8_t)*d->p++;
  if (d->mod == 2) d->disp = take32(d);
}

static void put_vector(struct text *t, int bytes, int reg, bool is_k, bool is_gpr) {
  if (is_k) text_addf(t, "k%d", reg & 7);
  else if (is_gpr) text_add(t, gpr_names[reg & 15]);
  else text_addf(t, "%cmm%d", bytes == 64 ? 'z' : bytes == 32 ? 'y' : 'x', reg);
}

/* Indexed by the lanes of a vector, whose highest bit is where a source has it. */
static void put_vector_memory(struct text *t, const struct decoded *d) {
  text_addf(t, "[%s+", gpr_names[d->base]);
  put_vector(t, d->bytes, (d->index < 0 ? 4 : d->index & 15) | (d->evex ? d->vvvv & 16 : 0), false, false);
  text_add(t, "]");
}

static void put_memory(struct text *t, const struct decoded *d) {
  if (d->base < 0) { text_addf(t, "[pool%+d]", (int)d->disp); return; }
  text_addf(t, "[%s", gpr_names[d->base]);
  if (d->index >= 0) text_addf(t, "+%s*%d", gpr_names[d->index & 15], 1 << (d->index >> 8));
  if (d->disp) text_addf(t, "%+d", (int)d->disp);
  text_add(t, d->broadcast ? "]{1to}" : "]");
}

static const struct insn_row *find_row(const struct decoded *d, int opcode) {
  for (int i = 0; i < X86_INSNS; i++) {
    const struct insn_row *r = &x86_rows[i];
    bool w_matters = d->evex || (r->w && !(r->flags & X86_VW0));
    if (r->map != d->map || r->pp != d->pp || r->opcode != opcode ||
        (d->evex ? r->flags & X86_VEX : r->flags & X86_EVEX))
      continue;
    if (w_matters && r->w != d->w) continue;
    return r;
  }
  return NULL;
}

static void put_vector_insn(struct text *t, struct decoded *d, int opcode, int rxb[5]) {
  static const char *const shifts[] = { "", "", "vpsrl", "", "vpsra", "", "vpsll" };
  const struct insn_row *r = find_row(d, opcode);
  if (!r && d->map == 2 && opcode == 0xF3) { text_addf(t, "blsr %s, %s", gpr_names[d->vvvv], gpr_names[*d->p++ & 7]); return; }
  if (!r) { text_addf(t, "? %02x", opcode); return; }
  if (r->flags & X86_BARE) { text_add(t, r->name); return; }
  operand(d, rxb[0], rxb[1], rxb[2], rxb[3], rxb[4]);
  bool digit = r->flags & X86_DIGIT, to = r->flags & X86_TO;
  if (digit) text_addf(t, "%s%c ", shifts[d->reg & 7], opcode == 0x73 ? 'q' : 'd');
  else text_addf(t, "%s ", r->name);
  bool kd = r->flags & X86_KD && (d->evex || r->flags & X86_VEX), ks = r->flags & X86_KS;
  if (!to) put_vector(t, d->bytes, digit ? d->vvvv : d->reg, kd, r->flags & X86_GD);
  else if (d->mod == 3) put_vector(t, d->bytes, d->rm, false, false);
  else put_memory(t, d);
  if (d->k) text_addf(t, "{k%d}%s", d->k, d->zero ? "{z}" : "");
  if (!digit && !(r->flags & (X86_TWO | X86_TO)) && !(r->flags & X86_VSIB && d->evex)) {
    text_add(t, ", ");
    put_vector(t, d->bytes, d->vvvv, ks, false);
  }
  text_add(t, ", ");
  if (to) put_vector(t, d->bytes, d->reg, kd, false);
  else if (d->mod == 3) put_vector(t, d->bytes, d->rm, ks, r->flags & X86_GS);
  else if (r->flags & X86_VSIB) put_vector_memory(t, d);
  else put_memory(t, d);
  if (!(r->flags & X86_IMM)) return;
  if (r->map == 3 && (opcode == 0x4A || opcode == 0x4B)) { /* a register in the immediate */
    text_add(t, ", ");
    put_vector(t, d->bytes, *d->p++ >> 4, false, false);
  } else {
    text_addf(t, ", %d", *d->p++);
  }
}

static void put_vex(struct text *t, struct decoded *d) {
  int first = d->p[0], a = d->p[1], rxb[5] = { !(a >> 7), 0, 0, 0, 0 }, low = a;
  d->map = 1;
  if (first == 0xC4) {
    rxb[1] = !(a >> 6 & 1);
    rxb[2] = !(a >> 5 & 1);
    d->map = a & 31;
    low = d->p[2];
    d->w = low >> 7;
  }
  d->vvvv = ~(low >> 3) & 15;
  d->bytes = low & 4 ? 32 : 16;
  d->pp = low & 3;
  d->p += first == 0xC4 ? 3 : 2;
  int opcode = *d->p++;
  put_vector_insn(t, d, opcode, rxb);
}

static void put_evex(struct text *t, struct decoded *d) {
  int a = d->p[1], b = d->p[2], c = d->p[3], opcode = d->p[4];
  int rxb[5] = { !(a >> 7), !(a >> 6 & 1), !(a >> 5 & 1), !(a >> 4 & 1), !(a >> 6 & 1) };
  d->evex = true;
  d->map = a & 7;
  d->w = b >> 7;
  d->pp = b & 3;
  d->vvvv = (~(b >> 3) & 15) | (!(c >> 3 & 1)) << 4;
  d->zero = c >> 7;
  d->bytes = 16 << (c >> 5 & 3);
  d->broadcast = c >> 4 & 1;
  d->k = c & 7;
  d->p += 5;
  put_vector_insn(t, d, opcode, rxb);
}

static void put_scalar_operands(struct text *t, const struct decoded *d, const char *name, bool to) {
  text_addf(t, "%s ", name);
  if (!to) text_addf(t, "%s, ", gpr_names[d->reg & 15]);
  if (d->mod == 3) text_add(t, gpr_names[d->rm & 15]);
  else put_memory(t, d);
  if (to) text_addf(t, ", %s", gpr_names[d->reg & 15]);
}

static void put_one_operand(struct text *t, const struct decoded *d, const char *name) {
  text_addf(t, "%s ", name);
  if (d->mod == 3) text_add(t, gpr_names[d->rm & 15]);
  else put_memory(t, d);
}

static const char *const conditions[] = { "o", "no", "b", "ae", "e", "ne", "be", "a",
                                          "s", "ns", "p", "np", "l", "ge", "le", "g" };

static void put_two_byte(struct text *t, struct decoded *d, int rex, const uint8_t *start) {
  int opcode = *d->p++, r = rex >> 2 & 1, x = rex >> 1 & 1, b = rex & 1;
  char name[16] = "cmov";
  if (opcode >= 0x80 && opcode < 0x90) {
    int32_t to = take32(d);
    text_addf(t, "j%s .%04x", conditions[opcode & 15], (unsigned)(d->p - start + to));
    return;
  }
  if (opcode == 0xAE) { d->p++, text_add(t, "sfence"); return; }
  operand(d, r, x, b, 0, 0);
  if (opcode == 0xAF) put_scalar_operands(t, d, "imul", false);
  else if (opcode == 0xB6 || opcode == 0xB7) put_scalar_operands(t, d, "movzx", false);
  else if (opcode == 0x1F) text_add(t, "nop");
  else if (opcode == 0x18) put_one_operand(t, d, (d->reg & 7) == 1 ? "prefetcht0" : "prefetcht1");
  else if (opcode == 0xBC) put_scalar_operands(t, d, "tzcnt", false);
  else if (opcode == 0xB1) put_scalar_operands(t, d, "lock cmpxchg", true);
  else if (opcode >= 0x90 && opcode < 0xA0) {
    memcpy(name, "set", 4);
    strcat(name, conditions[opcode & 15]);
    put_one_operand(t, d, name);
  } else if (opcode >= 0x40 && opcode < 0x50) {
    strcat(name, conditions[opcode & 15]);
    put_scalar_operands(t, d, name, false);
  } else text_addf(t, "? 0f %02x", opcode);
}

static void put_one_byte(struct text *t, struct decoded *d, int rex, const uint8_t *start) {
  static const char *const alu[] = { "add", "or", "adc", "sbb", "and", "sub", "xor", "cmp" };
  static const char *const unary[] = { "test", "", "not", "neg", "mul", "imul", "div", "idiv" };
  static const char *const shift[] = { "", "", "", "", "shl", "shr", "", "sar" };
  int opcode = *d->p++, r = rex >> 2 & 1, x = rex >> 1 & 1, b = rex & 1;
  if (opcode >= 0x50 && opcode < 0x60) {
    text_addf(t, "%s %s", opcode < 0x58 ? "push" : "pop", gpr_names[(opcode & 7) | b << 3]);
    return;
  }
  if (opcode == 0xA8) { text_addf(t, "test al, %d", *d->p++); return; }
  if (opcode == 0xC3 || opcode == 0x90 || opcode == 0x99) {
    text_add(t, opcode == 0xC3 ? "ret" : opcode == 0x90 ? "nop" : "cqo");
    return;
  }
  if (opcode == 0xA8) { text_addf(t, "test al, %d", *d->p++); return; }
  if (opcode >= 0x70 && opcode < 0x80) {
    int to = (int8_t)*d->p++;
    text_addf(t, "j%s .%04x", conditions[opcode & 15], (unsigned)(d->p - start + to));
    return;
  }
  if (opcode == 0xEB || opcode == 0xE9 || opcode == 0xE8) {
    int to = opcode == 0xEB ? (int8_t)*d->p++ : take32(d);
    text_addf(t, "%s .%04x", opcode == 0xE8 ? "call" : "jmp", (unsigned)(d->p - start + to));
    return;
  }
  if (opcode >= 0xB8 && opcode < 0xC0) {
    int64_t v;
    memcpy(&v, d->p, 8);
    d->p += 8;
    text_addf(t, "mov %s, %lld", gpr_names[(opcode & 7) | b << 3], (long long)v);
    return;
  }
  operand(d, r, x, b, 0, 0);
  switch (opcode) {
  case 0x8B: put_scalar_operands(t, d, "mov", false); break;
  case 0x89: case 0x88: put_scalar_operands(t, d, "mov", true); break;
  case 0x8D: put_scalar_operands(t, d, "lea", false); break;
  case 0x85: put_scalar_operands(t, d, "test", false); break;
  case 0x63: put_scalar_operands(t, d, "movsxd", false); break;
  case 0x01: put_scalar_operands(t, d, "add", true); break;
  case 0x81: put_one_operand(t, d, alu[d->reg & 7]), text_addf(t, ", %d", (int)take32(d)); break;
  case 0x83: put_one_operand(t, d, alu[d->reg & 7]), text_addf(t, ", %d", (int8_t)*d->p++); break;
  case 0xC7: put_one_operand(t, d, "mov"), text_addf(t, ", %d", (int)take32(d)); break;
  case 0x69: put_scalar_operands(t, d, "imul", false), text_addf(t, ", %d", (int)take32(d)); break;
  case 0xC1: put_one_operand(t, d, shift[d->reg & 7]), text_addf(t, ", %d", *d->p++); break;
  case 0xD3: put_one_operand(t, d, shift[d->reg & 7]), text_add(t, ", cl"); break;
  case 0xF7: put_one_operand(t, d, unary[d->reg & 7]); break;
  default:
    if ((opcode & 0xC7) == 0x00) put_scalar_operands(t, d, alu[opcode >> 3], true);
    else if ((opcode & 0xC7) == 0x03) put_scalar_operands(t, d, alu[opcode >> 3], false);
    else text_addf(t, "? %02x", opcode);
  }
}

static void put_scalar_insn(struct text *t, struct decoded *d, const uint8_t *start) {
  int rex = 0;
  if (*d->p == 0x66 || *d->p == 0xF0 || *d->p == 0xF3) d->p++;
  if ((*d->p & 0xF0) == 0x40) rex = *d->p++;
  if (*d->p == 0x0F) {
    d->p++;
    put_two_byte(t, d, rex, start);
  } else {
    put_one_byte(t, d, rex, start);
  }
}

void code_list(const struct code *c, struct text *t) {
  const uint8_t *p = c->pages, *end = c->pages + c->n_code;
  struct text line = { 0 };
  text_addf(t, "; kernel %s, %s, %d lanes, %zu bytes of code, frame %d\n", c->name ? c->name : "",
            c->is_avx512 ? "AVX-512" : "AVX2", c->lanes, c->n_code, c->frame_bytes);
  for (int m = 0; p < end;) {
    for (; m < c->n_marks && c->marks[m].at <= (uint32_t)(p - c->pages); m++) put_statement(c, t, &c->marks[m]);
    struct decoded d = { .p = p };
    text_clear(&line);
    if (*p == 0x62) put_evex(&line, &d);
    else if (*p == 0xC4 || *p == 0xC5) put_vex(&line, &d);
    else put_scalar_insn(&line, &d, c->pages);
    text_addf(t, "%04x  ", (unsigned)(p - c->pages));
    for (int i = 0; i < 12; i++)
      if (p + i < d.p) text_addf(t, "%02x", p[i]);
      else text_add(t, "  ");
    text_addf(t, "  %s\n", text_of(&line));
    p = d.p;
  }
  text_free(&line);
}
