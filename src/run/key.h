/* key.h -- the exact structure of a graph as bytes: equal keys, equal plans. */
#ifndef WEFT_KEY_H
#define WEFT_KEY_H
#include "graph/node.h"

struct key { uint8_t *bytes; size_t n, room; bool failed, is_listed; struct key *next; };
void key_clear(struct key *);  /* of a thread-local key, which is freed when its thread ends */
void key_add(struct key *, const void *, size_t);
void key_int(struct key *, int64_t);

/* list: as walk leaves it, graph lock held (slots). Ready nodes are leaves. */
void key_graph(struct key *, const struct node_list *list, int n, struct node *const target[]);

#endif
