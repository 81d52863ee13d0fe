/* walk.c -- the nodes that targets need, inputs before users. */
#include <string.h>
#include "base/mem.h"
#include "graph/node.h"

/* The stack of the search: a node and the input to look at next. */
enum { FEW = 64 };
struct visits { struct visit *step; int n, room; bool (*stop)(const struct node *); struct visit few[FEW]; };

static bool grow(struct visits *s) {
  bool is_first = s->step == s->few;
  struct visit *grown = mem_resize(is_first ? NULL : s->step, 2 * (size_t)s->room * sizeof *grown);
  if (!grown) return false;
  if (is_first) memcpy(grown, s->few, sizeof s->few);
  s->step = grown;
  s->room *= 2;
  return true;
}

static bool push(struct visits *s, struct node *n) {
  if (s->n == s->room && !grow(s)) return false;
  s->step[s->n++] = (struct visit){ n, 0, s->stop && s->stop(n) ? 0 : n->n_in };
  return true;
}

static bool append(struct node_list *l, struct node *n) {
  if (l->n == l->room) {
    int room = l->room ? 2 * l->room : 16;
    struct node **grown = mem_resize(l->node, (size_t)room * sizeof *grown);
    if (!grown) return false;
    l->node = grown;
    l->room = room;
  }
  n->slot = l->n;
  l->node[l->n++] = n;
  return true;
}

static bool search(struct node_list *l, struct visits *s, uint64_t epoch, struct node *target) {
  if (target->mark == epoch) return true;
  target->mark = epoch;
  bool ok = push(s, target);
  while (ok && s->n) {
    struct visit *top = &s->step[s->n - 1];
    struct node *n = top->node;
    while (top->next < top->n && n->in[top->next]->mark == epoch) top->next++;
    if (top->next < top->n) {
      struct node *in = n->in[top->next++];
      in->mark = epoch;
      ok = push(s, in);
    } else {
      s->n--;
      ok = append(l, n);
    }
  }
  return ok;
}

bool walk(struct node_list *l, int n, struct node *const targets[], bool (*stop)(const struct node *)) {
  struct visits s;
  s.step = s.few, s.n = 0, s.room = FEW, s.stop = stop;
  uint64_t epoch = graph_epoch();
  bool ok = true;
  *l = (struct node_list){ 0 };
  for (int i = 0; i < n && ok; i++) ok = search(l, &s, epoch, targets[i]);
  if (s.step != s.few) mem_free(s.step);
  if (!ok) node_list_free(l);
  return ok;
}

void node_list_free(struct node_list *l) {
  mem_free(l->node);
  *l = (struct node_list){ 0 };
}
