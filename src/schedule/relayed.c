/* relayed.c -- groups of a device that go along rows and add up along columns, in one kernel: whether its processors hand rows on
 * (kernel/relay.h), and are faster so than a kernel along rows and one along columns, which reads the rows once more.
 *
 * Only the kernel can tell, so it is written first; if it cannot go so, nodes are grouped again, apart. */
#include "schedule/work.h"
#include "kernel/relay.h"
#include "schedule/draft.h"

bool group_may_be_relayed(const struct work *w, const struct group *g) {
  const struct device *d = w->device;
  if (!d || !d->relays || w->keeps_columns_apart || g->n_axes != 2 || g->column != 0 || g->lane == 0) return false;
  return d->relays(d, &(struct relayed){ .rows = g->extent[0], .columns = g->extent[1] });
}

/* Lanes are neighbours along an axis of the access, and rows begin with whole 16 bytes. */
static bool stands_well(const struct draft *d, int buf, int axis) {
  const struct binding *b = &d->bind[buf];
  int64_t width = kir_width((weft_dtype)d->k->bufs[buf].dtype);
  if (b->stride[axis] != 1 || b->offset * width % 16) return false;
  for (int i = 0; i < d->k->bufs[buf].rank; i++) if (i != axis && b->stride[i] * width % 16) return false;
  return true;
}

/* What lanes read and store along the row; *written: bytes an element of what they store. */
static bool all_stand_well(const struct draft *d, const struct kir_relay *x, int *written) {
  *written = 0;
  for (int i = 0; i < x->n_reads; i++) if (!stands_well(d, x->read[i].buf, x->read[i].axis)) return false;
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) {
      if (s->kind != KIR_STORE || s->op != KIR_SET) continue;
      if (!stands_well(d, s->buf, d->k->bufs[s->buf].rank - 1)) return false;
      *written += kir_width((weft_dtype)d->k->bufs[s->buf].dtype);
    }
  return true;
}

static bool is_worth_while(const struct draft *d, const struct group *g) {
  struct kir_relay x;
  struct relayed r = { .rows = g->extent[0], .columns = g->extent[1] };
  bool *needs = work_take(d->w, (size_t)d->k->n_vals + 1);
  if (!needs || !kir_find_relay(d->k, &x) || !all_stand_well(d, &x, &r.written_bytes)) return false;
  kir_relay_work(&x, needs, &r.to_fold, &r.to_store);
  r.n_slots = x.n_slots;
  for (int i = 0; i < x.n_reads; i++)
    *(x.read[i].is_row ? &r.row_bytes : &r.vector_bytes) += kir_width((weft_dtype)d->k->bufs[x.read[i].buf].dtype);
  return d->w->device->relays(d->w->device, &r);
}

bool draft_is_relayed(const struct draft *d, const struct group *g) {
  if (!work_is_for_device(d->w) || !g->has_row || g->column < 0 || !g->column_wide) return true;
  if (!d->is_full && !d->k->failed && !is_worth_while(d, g)) d->w->keeps_columns_apart = true;
  return !d->w->keeps_columns_apart;
}
