/* debug.c -- a small object file in memory for each kernel: a symbol, and how to unwind from any of its instructions.
 * gdb finds them by its interface for compilers at run time. With WEFT_PERF=1 in the environment the name is also appended
 * to /tmp/perf-PID.map, where perf looks. */
#include "backend/x86/debug.h"
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"

enum { TEXT = 1, FRAMES, SYMBOLS, NAMES, SECTION_NAMES, SECTIONS, NAME_LENGTH = 64, FRAME_MAX = 208 };

struct file {
  Elf64_Ehdr head;
  Elf64_Shdr section[SECTIONS];
  Elf64_Sym symbol[2];
  char names[NAME_LENGTH], section_names[48];
  _Alignas(8) uint8_t frames[FRAME_MAX];
};

struct debug { struct debug_entry entry; struct file file; };

/* ---- Unwinding ---- */

enum { CFA_ADVANCE = 0x40, CFA_OFFSET = 0x80, CFA_ADVANCE_4 = 4, CFA_DEF = 12, CFA_DEF_OFFSET = 14 };
enum { DWARF_RSP = 7, DWARF_RETURN = 16 };

struct bytes { uint8_t *at; int n; };
static void put(struct bytes *b, int byte) { b->at[b->n++] = (uint8_t)byte; }
static void put_n(struct bytes *b, uint64_t v, int n) {
  memcpy(b->at + b->n, &v, (size_t)n);
  b->n += n;
}

/* A record begins with its length, which is known at its end, and has a multiple of 8 bytes. */
static int record_open(struct bytes *b) { return b->n += 4, b->n - 4; }
static void record_close(struct bytes *b, int at) {
  while ((b->n - at) % 8) put(b, 0);
  uint32_t length = (uint32_t)(b->n - at - 4);
  memcpy(b->at + at, &length, 4);
}

/* The state at the first instruction of any function: the return address is at the top of the stack. */
static void put_common(struct bytes *b) {
  int at = record_open(b);
  put_n(b, 0, 4);
  put(b, 1);
  put_n(b, 'z' | 'R' << 8, 3);
  put(b, 1);                          /* addresses in bytes, offsets in -8 */
  put(b, 0x78);
  put(b, DWARF_RETURN);
  put(b, 1);
  put(b, 0);                          /* addresses are absolute */
  put(b, CFA_DEF), put(b, DWARF_RSP), put(b, 8);
  put(b, CFA_OFFSET | DWARF_RETURN), put(b, 1);
  record_close(b, at);
}

static void advance(struct bytes *b, size_t by) { put(b, CFA_ADVANCE_4), put_n(b, by, 4); }

/* Six pushes, of one byte and of two; a return address above them where code is called; before the last byte, a return, six pops
 * in the opposite order. */
static void put_function(struct bytes *b, struct debug_code c) {
  static const uint8_t saved[] = { 3, 6, 12, 13, 14, 15 }, size[] = { 1, 1, 2, 2, 2, 2 };
  enum { PUSHES = 10 };
  int at = record_open(b);
  put_n(b, (uint64_t)b->n, 4);
  put_n(b, (uint64_t)(uintptr_t)c.at, 8);
  put_n(b, c.n, 8);
  put(b, 0);
  for (int i = 0; i < 6; i++) {
    put(b, CFA_ADVANCE | size[i]);
    put(b, CFA_DEF_OFFSET), put(b, 16 + 8 * i);
    put(b, CFA_OFFSET | saved[i]), put(b, 2 + i);
  }
  advance(b, c.called - PUSHES);
  put(b, CFA_DEF_OFFSET), put(b, 64);
  advance(b, c.called_end - c.called);
  put(b, CFA_DEF_OFFSET), put(b, 56);
  advance(b, c.n - c.called_end - PUSHES - 1);
  for (int i = 5; i >= 0; i--) {
    put(b, CFA_ADVANCE | size[i]);
    put(b, CFA_DEF_OFFSET), put(b, 8 + 8 * i);
  }
  record_close(b, at);
}

static int put_frames(uint8_t *to, struct debug_code c) {
  struct bytes b = { to, 0 };
  put_common(&b);
  put_function(&b, c);
  put_n(&b, 0, 4);
  return b.n;
}

/* ---- The object file ---- */

static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";

static void fill_sections(struct file *f, const void *code, size_t n, int frames) {
  Elf64_Shdr *s = f->section;
  uint64_t base = (uint64_t)(uintptr_t)f;
  s[TEXT] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_size = n,
                          .sh_addr = (uint64_t)(uintptr_t)code, .sh_addralign = 16 };
  s[FRAMES] = (Elf64_Shdr){ .sh_name = 7, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_size = (uint64_t)frames,
                            .sh_addr = base + offsetof(struct file, frames), .sh_offset = offsetof(struct file, frames),
                            .sh_addralign = 8 };
  s[SYMBOLS] = (Elf64_Shdr){ .sh_name = 17, .sh_type = SHT_SYMTAB, .sh_offset = offsetof(struct file, symbol),
                             .sh_size = sizeof f->symbol, .sh_link = NAMES, .sh_info = 1, .sh_addralign = 8,
                             .sh_entsize = sizeof *f->symbol };
  s[NAMES] = (Elf64_Shdr){ .sh_name = 25, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names),
                           .sh_size = sizeof f->names, .sh_addralign = 1 };
  s[SECTION_NAMES] = s[NAMES];
  s[SECTION_NAMES].sh_name = 33;
  s[SECTION_NAMES].sh_offset = offsetof(struct file, section_names);
  s[SECTION_NAMES].sh_size = sizeof f->section_names;
}

static void fill_file(struct file *f, const char *name, struct debug_code c) {
  f->head = (Elf64_Ehdr){ .e_ident = { 0x7F, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_REL,
                          .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_shoff = offsetof(struct file, section),
                          .e_ehsize = sizeof f->head, .e_shentsize = sizeof *f->section, .e_shnum = SECTIONS,
                          .e_shstrndx = SECTION_NAMES };
  f->symbol[1] = (Elf64_Sym){ .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = TEXT, .st_size = c.n };
  snprintf(f->names, sizeof f->names, "%cweft_%s", 0, name ? name : "kernel");
  memcpy(f->section_names, section_names, sizeof section_names);
  fill_sections(f, c.at, c.n, put_frames(f->frames, c));
}

/* ---- Who is told ---- */

/* gdb sets a breakpoint here. */
__attribute__((noinline)) void __jit_debug_register_code(void);
void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }

struct debug_list __jit_debug_descriptor = { .version = 1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

void debug_watch_forks(void) { pthread_atfork(lock, unlock, unlock); }

static void tell(struct debug_entry *e, unsigned action) {
  __jit_debug_descriptor.relevant = e;
  __jit_debug_descriptor.action = action;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = 0;
}

static void add(struct debug_entry *e) {
  enum { REGISTER = 1 };
  struct debug_list *l = &__jit_debug_descriptor;
  e->next = l->first;
  if (e->next) e->next->previous = e;
  l->first = e;
  tell(e, REGISTER);
}

static void take_out(struct debug_entry *e) {
  enum { UNREGISTER = 2 };
  if (e->previous) e->previous->next = e->next;
  else __jit_debug_descriptor.first = e->next;
  if (e->next) e->next->previous = e->previous;
  tell(e, UNREGISTER);
}

static void tell_perf(const struct file *f, const void *code, size_t n) {
  const char *wish = getenv("WEFT_PERF");
  char path[64], line[128];
  if (!wish || strcmp(wish, "1")) return;
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  int length = snprintf(line, sizeof line, "%lx %lx %s\n", (unsigned long)(uintptr_t)code, (unsigned long)n, f->names + 1);
  ssize_t done = write(fd, line, (size_t)length); /* a name less, if it fails */
  (void)done;
  close(fd);
}

struct debug *debug_new(const char *name, struct debug_code c) {
  struct debug *d = mem_alloc(sizeof *d);
  if (!d) return NULL;
  *d = (struct debug){ .entry = { .file = &d->file, .bytes = sizeof d->file } };
  fill_file(&d->file, name, c);
  lock();
  add(&d->entry);
  tell_perf(&d->file, c.at, c.n);
  unlock();
  return d;
}

void debug_free(struct debug *d) {
  if (!d) return;
  lock();
  take_out(&d->entry);
  unlock();
  mem_free(d);
}
