/* images.c -- the store of images, and the questions about them that both transforms ask: see images.h. */
#include "transform/images.h"
#include "base/mem.h"

bool images_fail(struct images *m, struct failure *why) {
  if (m->failure) failure_release(why);
  else m->failure = why;
  return false;
}

int images_operand(const struct images *m, int i, int k) { return m->g.operand[m->g.first[i] + k]; }

bool images_move(const struct images *m, int i) {
  for (int k = 0; k < subgraph_arity(&m->g, i); k++) {
    int j = images_operand(m, i, k);
    if (m->image[j] || m->results[j]) return true;
  }
  return false;
}

struct node *images_item(const struct images *m, int i) {
  struct node **results = m->results[images_operand(m, i, 0)];
  return results ? results[((const struct item_attr *)m->g.node[i]->attr)->k] : NULL;
}

bool images_begin(struct images *m, int n, struct node *const x[], struct node *const given[], int n_y, struct node *const y[]) {
  bool ok = subgraph_take(&m->g, n_y, y, n, x, oldest_of(n, x));
  if (ok) {
    m->image = node_list_new(m->g.n);
    m->results = mem_alloc((size_t)m->g.n * sizeof *m->results);
    m->is_given = mem_alloc((size_t)m->g.n + 1);
    ok = m->image && m->results && m->is_given;
  }
  if (!ok) return images_fail(m, no_memory());
  for (int j = 0; j < n; j++) {
    int i = m->g.wall[j];
    if (i < 0) continue;
    m->is_given[i] = true;
    if (given[j] && !m->image[i]) m->image[i] = node_retain(given[j]);
  }
  return true;
}

void images_end(struct images *m) {
  for (int i = 0; m->results && i < m->g.n; i++)
    if (m->results[i]) node_list_drop(m->g.node[i]->op->many->count(m->g.node[i]), m->results[i]);
  node_list_drop(m->g.n, m->image);
  mem_free(m->results);
  mem_free(m->is_given);
  subgraph_free(&m->g);
}
